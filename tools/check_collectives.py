#!/usr/bin/env python3
"""Checks that no kernel calls a collective (shuffle, vote, warp or row reduction) behind &&, || or
?: on a value that may differ between lanes: lanes that skip it leave the others waiting for ever.

Found in device/row/select.cuh, where rows sharing a warp diverged: routers with f32 logits never
ended. Constants (kName, C.name, T.name) may guard a collective. Otherwise store its result in a
variable first. In: every device source of ops/, device/, tests/device. Out: the offending lines;
exit code 1 if there are any.
"""

from __future__ import annotations

import re
import sys

import tree

FOLDERS = ["ops", "device", "tests/device"]
COLLECTIVE = re.compile(
    r"\b(?:__(?:shfl|reduce|match|all|any|ballot)\w*_sync|__syncthreads\w*|next)\s*\("
    r"|\btemplate\s+all<|\b(?:group|threads|blocks)\.(?:all|meet)\b"
)
# Allowed left of the operator: a constant, a comparison of constants, or their negation.
CONSTANT = re.compile(
    r"(?:!?\s*(?:k[A-Z]\w*|[A-Z]\.\w+|true|false)(?:\s*[<>=!]=?\s*(?:k[A-Z]\w*|\d+))?)\s*$"
)
GUARD = re.compile(r"&&|\|\||\?")


def guarded_in(path: str, text: str) -> list[str]:
    plain = tree.without_comments(text)
    problems = []
    begin = 0
    for statement in re.split(r"[;{}]", plain):
        for found in COLLECTIVE.finditer(statement):
            guards = list(GUARD.finditer(statement, 0, found.start()))
            unsafe = [g for g in guards if not CONSTANT.search(statement[: g.start()])]
            if unsafe:
                line = plain.count("\n", 0, begin + found.start()) + 1
                problems.append(
                    f"{path}:{line}: {found[0].strip('( ')} behind {unsafe[-1][0]}: lanes that "
                    "skip it leave the others waiting; take it into a variable first"
                )
                break
        begin += len(statement) + 1
    return problems


def main() -> int:
    return tree.check_texts(
        __doc__, "collectives", [".cuh", ".hpp"], FOLDERS, guarded_in, "none behind a condition"
    )


if __name__ == "__main__":
    sys.exit(main())
