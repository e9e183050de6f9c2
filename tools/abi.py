#!/usr/bin/env python3
"""The C ABI as one text: versions, enumerators, offsets of every structure's members, prototypes.

In: include/dlblas/dlblas.h, and a C compiler, which computes the sizes. Out: tests/abi.txt
(--update), or the lines in which the header differs from it. An added line is new to callers; a
changed or removed line breaks programs that are already built. Read next:
tools/cpp_declarations.py, tests/test_public_headers.py.
"""

from __future__ import annotations

import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import cpp_declarations
import tree
from cpp_declarations import Declaration, flat

HEADER = "include/dlblas/dlblas.h"
GOLDEN = "tests/abi.txt"
COMMAND = ".venv/bin/python tools/abi.py --update"


def declarations(root: pathlib.Path) -> list[Declaration]:
    return cpp_declarations.read((root / HEADER).read_text(encoding="utf-8"))


def functions(root: pathlib.Path) -> set[str]:
    return {d.name for d in declarations(root) if d.kind == "function"}


def enumerators(d: Declaration) -> list[str]:
    body = flat(d.text).split("{", 1)[1].rsplit("}", 1)[0]
    return re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", body.strip())


def questions(found: list[Declaration]) -> list[str]:
    """One C statement for each line that only a compiler can compute."""
    asked = []
    for d in found:
        if d.kind != "type":
            continue
        if " enum " in f" {flat(d.text)}":
            asked.append(f'printf("enum {d.name} %zu\\n", sizeof({d.name}));')
            asked += [f'printf("  {e} %lld\\n", (long long){e});' for e in enumerators(d)]
            continue
        asked.append(f'printf("struct {d.name} %zu\\n", sizeof({d.name}));')
        for m in d.members:
            size = f"sizeof((({d.name}*)0)->{m.name})"
            where = f"offsetof({d.name}, {m.name})"
            asked.append(f'printf("  {m.name} at %zu, %zu\\n", {where}, {size});')
    return asked


def dump(root: pathlib.Path) -> str:
    found = declarations(root)
    body = "\n".join(questions(found))
    program = f'#include "{root / HEADER}"\n#include <stdio.h>\nint main(void) {{\n{body}\n}}\n'
    with tempfile.TemporaryDirectory() as folder:
        source, binary = pathlib.Path(folder) / "abi.c", pathlib.Path(folder) / "abi"
        source.write_text(program)
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, "-std=c11", str(source), "-o", str(binary)], check=True)
        told = subprocess.run([str(binary)], check=True, capture_output=True, text=True).stdout
    lines = [flat(d.text) for d in found if d.kind == "macro"]
    lines += ["", *told.splitlines(), ""]
    lines += sorted(flat(d.text) for d in found if d.kind in ("function", "alias"))
    return "\n".join(lines) + "\n"


def problems_of(root: pathlib.Path) -> list[str]:
    golden = root / GOLDEN
    kept = golden.read_text(encoding="utf-8") if golden.exists() else ""
    moved = difflib.unified_diff(kept.splitlines(), dump(root).splitlines(), n=0, lineterm="")
    changes = [line for line in moved if not line.startswith(("---", "+++", "@@"))]
    return (
        [*changes, f"{GOLDEN} is another ABI; if that is meant, run `{COMMAND}`"] if changes else []
    )


def main() -> int:
    parser = tree.parser(__doc__)
    parser.add_argument("--update", action="store_true", help="write the text")
    args = parser.parse_args()
    root = args.root.resolve()
    if args.update:
        (root / GOLDEN).write_text(dump(root), encoding="utf-8")
    return tree.report("abi", problems_of(root), f"{len(functions(root))} functions")


if __name__ == "__main__":
    sys.exit(main())
