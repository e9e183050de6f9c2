#!/usr/bin/env python3
"""Checks that ops/ contains no rates: bytes and operations per second belong to the machine.

A rate is a number of at least 1e9 with a decimal point or exponent, outside comments and strings.
Estimates take rates from src/core/rates.hpp and define only the fraction of a rate that their
kernel reaches. A line that uses such a number for something else is marked `// no rate`.
"""

from __future__ import annotations

import re
import sys

import tree

NUMBER = re.compile(r"(?<![\w.])(?:\d[\d']*\.\d*|\.\d+|\d[\d']*(?=[eE]))(?:[eE][+-]?\d+)?")
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
MIN_RATE, SPARED = 1e9, "// no rate"


def rates_of(path: str, text: str) -> list[str]:
    said = text.splitlines()
    problems = []
    for number, line in enumerate(tree.without_comments(text).splitlines(), 1):
        for match in NUMBER.finditer(STRING.sub('""', line)):
            if float(match[0].replace("'", "")) >= MIN_RATE and SPARED not in said[number - 1]:
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
