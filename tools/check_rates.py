#!/usr/bin/env python3
"""Checks that no rate stands under ops/: bytes and operations a second belong to the machine.

A rate is a number of 1e9 or more with a point or an exponent, outside of comments and strings.
Estimates take rates from src/core/rates.hpp, and keep beside themselves the part of one that their
kernel reaches. A line that means something else by such a number says `// no rate`.
"""

from __future__ import annotations

import re
import sys

import tree

NUMBER = re.compile(r"(?<![\w.])(?:\d[\d']*\.\d*|\.\d+|\d[\d']*(?=[eE]))(?:[eE][+-]?\d+)?")
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
LEAST, SPARED = 1e9, "// no rate"


def rates_of(path: str, text: str) -> list[str]:
    said = text.splitlines()
    problems = []
    for number, line in enumerate(tree.without_comments(text).splitlines(), 1):
        for match in NUMBER.finditer(STRING.sub('""', line)):
            if float(match[0].replace("'", "")) >= LEAST and SPARED not in said[number - 1]:
                problems.append(
                    f"{path}:{number}: the rate {match[0]} belongs into src/core/rates.cpp"
                )
    return problems


def main() -> int:
    return tree.check_texts(
        __doc__, "rates", [".cpp", ".hpp", ".cuh"], ["ops"], rates_of, "no rate"
    )


if __name__ == "__main__":
    sys.exit(main())
