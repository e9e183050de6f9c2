#!/usr/bin/env python3
"""Checks that no kernel builds a mutable struct from members of its __grid_constant__ parameter.

NVRTC 13 drops later writes to `Params mine = {p.gemm, p.epilogue};`: reads of `mine` still return
the values in `p` (found in ops/gemm/grouped_block, where every group got the first group's
matrices). A const struct is only read, so it is allowed; whole copies (`Params mine = p.product;`)
are correct on an H200. Copy scalars out of `p` instead. In: every device source of ops/, device/,
src/kernels, tests/device. Out: the offending lines; exit code 1 if there are any.
"""

from __future__ import annotations

import re
import sys

import tree

KERNEL = re.compile(r"__grid_constant__\s+(?:[\w:<>,.\s]+?[\s>&*])(\w+)\s*[,)]")
BRACED = re.compile(
    r"(?<![\w.])(?P<const>const(?:expr)?\s+)?(?P<type>(?:\w+::)*[A-Z]\w*(?:<[^;={}]*>)?)\s+"
    r"(?P<name>\w+)\s*(?:=\s*)?\{(?P<first>[^;{}]*)\}\s*[;,]"
)
FOLDERS = ["ops", "device", "src/kernels", "tests/device"]


def bodies_of(text: str) -> list[tuple[int, int, set[str]]]:
    """The begin, end and __grid_constant__ parameters of each kernel body that has any."""
    found = []
    for begin in re.finditer(r"__global__", text):
        opened = text.find("{", begin.end())
        while opened >= 0 and text.count("(", begin.end(), opened) != text.count(
            ")", begin.end(), opened
        ):
            opened = text.find("{", opened + 1)
        head = text[begin.end() : opened]
        names = set(KERNEL.findall(head))
        if opened < 0 or not names:
            continue
        depth, end = 1, opened + 1
        while depth and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        found.append((opened, end, names))
    return found


def moved_in(path: str, text: str) -> list[str]:
    plain = tree.without_comments(text)
    problems = []
    for begin, end, names in bodies_of(plain):
        member = re.compile(rf"\b(?:{'|'.join(sorted(names))})\.\w+\s*(?:,|$)")
        for match in BRACED.finditer(plain, begin, end):
            if not match["const"] and member.search(match["first"]):
                line = plain.count("\n", 0, match.start()) + 1
                problems.append(
                    f"{path}:{line}: {match['name']} is a struct of members of a __grid_constant__ "
                    "parameter, and NVRTC drops writes to it; take scalars, or make it const"
                )
    return problems


def main() -> int:
    return tree.check_texts(
        __doc__, "moved parameters", [".cuh", ".hpp"], FOLDERS, moved_in, "none moved"
    )


if __name__ == "__main__":
    sys.exit(main())
