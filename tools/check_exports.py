#!/usr/bin/env python3
"""Checks that the library exports only dlblas_* and needs only libc (with libdl and libpthread),
libm, libgcc_s and the loader."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import tree

ALLOWED = re.compile(r"^(libc|libm|libgcc_s|libdl|libpthread|ld-linux[\w-]*)\.so(\.\d+)*$")


def output_of(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def problems_of(library: pathlib.Path) -> tuple[list[str], str]:
    rows = [
        line.split() for line in output_of("nm", "-D", "--defined-only", str(library)).splitlines()
    ]
    exported = [row[-1] for row in rows]
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", output_of("readelf", "-d", str(library)))
    problems = [f"exports {name}" for name in exported if not name.startswith("dlblas_")]
    problems += [f"needs {name}" for name in needed if not ALLOWED.match(name)]
    if not exported:
        problems.append("exports nothing")
    return problems, f"{len(exported)} functions; needs {', '.join(needed)}"


def main() -> int:
    parser = tree.parser(__doc__)
    parser.add_argument("--library", type=pathlib.Path)
    args = parser.parse_args()
    library = args.library or args.root / "build" / "libdlblas.so"
    problems, summary = problems_of(library)
    return tree.report("exports", problems, summary)


if __name__ == "__main__":
    sys.exit(main())
