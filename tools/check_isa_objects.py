#!/usr/bin/env python3
"""Checks that objects compiled for one instruction set hold no weak symbol.

The linker keeps one copy of each weak symbol for the whole library. If that is the AVX-512 copy,
the library crashes on a machine without AVX-512. Checks the release build's objects of all levels
and units (*_baseline, *_avx2, *_amx …).
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import tree

ISA = re.compile(r"_(baseline|avx2|avx512|avx512vnni|avx512bf16|amx)\.cpp$")
# nm's letters for symbols that the linker merges: weak function, weak object, unique.
MERGED = "WwVvu"


def weak_symbols(obj: pathlib.Path) -> list[str]:
    text = subprocess.run(["nm", "-C", str(obj)], capture_output=True, text=True, check=True).stdout
    rows = [line[17:].split(" ", 1) for line in text.splitlines() if len(line) > 17]
    # DW.ref.* is a pointer to the exception personality, the same bytes at every level.
    return [name for kind, name in rows if kind in MERGED and not name.startswith("DW.ref.")]


def main() -> int:
    parser = tree.parser(__doc__)
    parser.add_argument("--build", type=pathlib.Path)
    args = parser.parse_args()
    root = args.root.resolve()
    objects = (args.build or root / "build") / "CMakeFiles" / "dlblas_objects.dir"
    sources = [p for p in tree.files(root, [".cpp"], ["cpu", "ops"]) if ISA.search(p.name)]
    pairs = [(p.relative_to(root), objects / f"{p.relative_to(root)}.o") for p in sources]
    # Sources that the build generates from row programs (cmake/row_programs.cmake).
    build = objects.parent.parent
    made = sorted((build / "generated" / "rows").glob("*.cpp"))
    pairs += [(p.relative_to(build), objects / f"{p.relative_to(build)}.o") for p in made]
    built = [(source, obj) for source, obj in pairs if obj.exists()]
    problems = [
        f"{source}: weak symbol {name}" for source, obj in built for name in weak_symbols(obj)
    ]
    if sources and not built:
        problems.append(f"no object of an instruction set under {objects}; build first")
    return tree.report("isa objects", problems, f"{len(built)} objects, no weak symbol")


if __name__ == "__main__":
    sys.exit(main())
