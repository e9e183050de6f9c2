#!/usr/bin/env python3
"""Checks that every header compiles alone, included twice, and the C header as C.

A part of another header says so in its opening comment, "Included by <header> alone"; the check
enforces that, and compiles the whole header with the part's instruction set. Passed headers are
cached in build/checks.
"""

from __future__ import annotations

import os
import pathlib
import platform
import re
import subprocess
import sys

import tree

_AVX2 = ["-mavx2", "-mfma", "-mf16c"]
_AVX512 = ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", *_AVX2]
_AMX = [*_AVX512, "-mavx512bf16", "-mamx-tile", "-mamx-bf16", "-mamx-int8"]
ISA = {
    "_avx2": _AVX2,
    "w4/few_rows_simd": _AVX2,
    "_avx512": _AVX512,
    "_avx512vnni": [*_AVX512, "-mavx512vnni"],
    "_avx512bf16": [*_AVX512, "-mavx512bf16"],
    "_amx": _AMX,
    "gemm/pairs": [*_AVX512, "-mavx512bf16"],
    "gemm/pair_rows": [*_AVX512, "-mavx512bf16"],
    "gemm/tile_rows": _AMX,
    "gemm/codes": _AMX,
    "cpu/amx": _AMX,
}
PART = re.compile(r"Included\s+by\s+([\w/.]+\.hpp)\s+alone")
MAX_HEADERS = (
    48  # a second each; a header that opens a source is compiled alone by the build as well
)
WARN = ["-Wall", "-Wextra", "-Wshadow", "-Werror", "-Wno-unused-function", "-fsyntax-only"]


def compile_flags(root: pathlib.Path, header: str) -> list[str]:
    dirs = (".", "src", "include", "build", "build/generated/include")
    flags = [f"-I{root / d}" for d in dirs]
    stem = header.removesuffix(".hpp").removesuffix(".cpp")
    if platform.machine() == "x86_64":
        flags.append("-DDLBLAS_X86")
        flags += next((f for suffix, f in ISA.items() if stem.endswith(suffix)), [])
    return flags


def whole_of(root: pathlib.Path, header: str) -> str:
    """The header to compile for `header`: itself, or the one that it is a part of."""
    opening = re.sub(r"\n//", " ", (root / header).read_text()[:800])
    part = PART.search(re.sub(r"\s+", " ", opening))
    return part[1] if part else header


def compile_alone(root: pathlib.Path, header: str) -> str:
    whole = whole_of(root, header)
    language = ["-x", "c", "-std=c11"] if whole.endswith(".h") else ["-x", "c++", "-std=c++20"]
    compiler = [os.environ.get("CXX", "c++"), *language, *WARN, *compile_flags(root, header)]
    text = f'#include "{root / whole}"\n' * 2
    done = subprocess.run([*compiler, "-"], input=text, capture_output=True, text=True)
    first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
    return f"{header}: does not compile alone: {first}" if done.returncode else ""


def main() -> int:
    root = tree.parser(__doc__).parse_args().root.resolve()
    dirs = [*tree.SOURCE_DIRS, "build/generated/include"]
    headers = [str(p.relative_to(root)) for p in tree.files(root, [".hpp", ".h"], dirs)]
    problems = []
    for path in tree.files(root, [".hpp", ".cpp", ".h"]):
        user = str(path.relative_to(root))
        for name in set(tree.includes(root, path)).intersection(headers):
            if whole_of(root, name) not in (name, user):
                problems.append(
                    f"{user}: includes {name}, which is a part of {whole_of(root, name)} alone"
                )
    if platform.machine() != "x86_64":
        headers = [h for h in headers if not any(s in h for s in ISA)]
    jobs = {
        h: tree.digest(
            root, root / whole_of(root, h), " ".join([h, *compile_flags(root, h), *WARN])
        )
        for h in headers
    }
    problems += tree.run_cached(
        root, "headers", jobs, lambda header: compile_alone(root, header), MAX_HEADERS
    )
    return tree.report("headers", problems, f"of {len(headers)}, all that were read compile alone")


if __name__ == "__main__":
    sys.exit(main())
