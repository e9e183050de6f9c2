#!/usr/bin/env python3
"""Measures what an operator costs that is a row program: the lines of its room
ops/<family>/<operator>/ (definition, program, reference, Python, cases, without blank lines and
comments, and without what benchmarks compare it with; at most 250) and the machine code of the
program for each instruction set of the release build (at most 60 kB). Operators with kernels of
their own are not counted.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import tree

CODE = re.compile(r"^[ \t]*(?!//|#(?!include|pragma|if|endif))\S", re.MULTILINE)
MAX_LINES, MAX_BYTES = 250, 60_000
LEVEL = re.compile(r"^(\w+)_(baseline|avx2|avx512)\.cpp\.o$")


def lines_of(root: pathlib.Path) -> dict[str, int]:
    """Row program -> lines of all files in its room, without blank ones and comments."""
    programs = root.glob("ops/*/*/*_program.hpp")
    rooms = sorted(p.parent for p in programs if p.stem == f"{p.parent.name}_program")
    return {
        room.name: sum(
            len(CODE.findall(p.read_text(encoding="utf-8")))
            for p in room.iterdir()
            if p.is_file() and p.name != "peers.py"
        )
        for room in rooms
    }


def code_of(build: pathlib.Path) -> dict[str, int]:
    """Operator -> bytes of code and constants at its largest level."""
    objects = sorted((build / "CMakeFiles/dlblas_objects.dir/generated/rows").glob("*.o"))
    found: dict[str, int] = {}
    if not objects:
        return found
    table = subprocess.run(["size", *objects], capture_output=True, text=True, check=True).stdout
    for obj, row in zip(objects, table.splitlines()[1:], strict=True):
        if match := LEVEL.match(obj.name):
            found[match[1]] = max(found.get(match[1], 0), int(row.split()[0]))
    return found


def main() -> int:
    parser = tree.parser(__doc__)
    parser.add_argument("--build", type=pathlib.Path)
    args = parser.parse_args()
    root = args.root.resolve()
    lines, code = lines_of(root), code_of(args.build or root / "build")
    problems = [f"{op}: {n} lines; at most {MAX_LINES}" for op, n in lines.items() if n > MAX_LINES]
    problems += [f"{op}: {n} bytes of code; at most {MAX_BYTES}" for op, n in code.items()
                 if n > MAX_BYTES]  # fmt: skip
    told = ", ".join(
        f"{op} {n} lines" + (f" {code[op] / 1000:.0f} kB" if op in code else "")
        for op, n in lines.items()
    )
    return tree.report("operator size", problems, told)


if __name__ == "__main__":
    sys.exit(main())
