#!/usr/bin/env python3
"""Checks that only src/core/env.cpp calls getenv, and that there are at most 15 DLBLAS_ variables.

The table in src/core/env.cpp is the complete list: a variable that Python names must be in it.
"""

from __future__ import annotations

import re
import sys

import tree

HOME = "src/core/env.cpp"
MAX_VARIABLES = 15
VARIABLE = re.compile(r'"(DLBLAS_[A-Z][A-Z0-9_]*)"')
CALL = re.compile(r"\b(?:secure_)?getenv\s*\(")


def main() -> int:
    root = tree.parser(__doc__).parse_args().root.resolve()
    problems = []
    for path in tree.files(root, [".cpp", ".hpp", ".h"]):
        name = str(path.relative_to(root))
        for number, line in enumerate(tree.without_comments(path.read_text()).splitlines(), 1):
            if name != HOME and CALL.search(line):
                problems.append(f"{name}:{number}: getenv outside {HOME}; add a row to its table")
    home = root / HOME
    table = (
        set(VARIABLE.findall(tree.without_comments(home.read_text()))) if home.exists() else set()
    )
    if not table:
        problems.append(f"{HOME}: no DLBLAS_ variable found; the table is gone")
    if len(table) > MAX_VARIABLES:
        problems.append(f"{HOME}: {len(table)} variables; at most {MAX_VARIABLES} are allowed")
    for path in tree.files(root, [".py"], ["python", "ops"]):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for name in set(VARIABLE.findall(line.replace("'", '"'))) - table:
                problems.append(
                    f"{path.relative_to(root)}:{number}: {name} is not in the table of {HOME}"
                )
    return tree.report("getenv", problems, f"{len(table)} variables, one reader")


if __name__ == "__main__":
    sys.exit(main())
