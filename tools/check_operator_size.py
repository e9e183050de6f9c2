#!/usr/bin/env python3
"""Measures what each operator costs, in lines of source and in bytes of CPU machine code.

Lines: its room ops/<family>/<operator>/ (definition, program, reference, Python, cases) and what
lies beside it for it alone, without blank lines, comments and peers.py, which benchmarks compare it
with; at most 250 for a row program, apart from the exceptions in LONGER.
Machine code: its CPU kernels for each instruction set of the release build, row programs and
others; at most 60 kB, as are the files that several operators share, which count under their own
names: those of a family, and of cpu/ (gemm/blocks and gemm/few_rows, the loops of all matrix
products). Prints both, and the size of the host code: definition, oracle,
launches.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import tree

CODE = re.compile(r"^[ \t]*(?!//|#(?!include|pragma|if|endif))\S", re.MULTILINE)
MAX_LINES, MAX_BYTES = 250, 60_000
# Row programs that may be longer, and why: lines, reason.
LONGER = {
    "layer_norm_backward": (330, "two forms of the program: cuda_folded has the faster one"),
    "layernorm_gated_backward": (560, "six norms with four results, and a second form"),
    "group_norm_backward": (410, "activation, groups and phases, and a second form"),
    "layernorm_gated_rows": (280, "its gradient once more, as a formula that torch differentiates"),
    "store_kv_cache": (294, "values of another width than keys: two calls of its sibling"),
    "qk_norm_rope": (336, "four operators in one launch: norm, rotation, a cache, its codes"),
}
FOLDERS = ("cpu", "cuda", "gradient", "rotary")  # of a family, no room
INCLUDE = re.compile(r'^#include "(ops/[^"]+)"', re.MULTILINE)
LEVEL = re.compile(r"^(\w+)_(baseline|avx2|avx512|avx512vnni|avx512bf16|amx)\.cpp\.o$")


def rooms_of(root: pathlib.Path) -> list[pathlib.Path]:
    """The folder of each operator."""
    return sorted(p.parent for p in root.glob("ops/*/*/*.cpp") if p.stem == p.parent.name)


def beside(root: pathlib.Path, rooms: dict[str, pathlib.Path]) -> dict[str, list[pathlib.Path]]:
    """The files of each family's folder that belong to a single operator: headers that the files
    of one room alone include, and the sources of the same name."""
    readers: dict[str, set[str]] = {}
    for file in root.glob("ops/**/*.[ch]*"):
        if file.is_file() and file.suffix in (".cpp", ".hpp", ".cuh"):
            room = next((r for r, at in rooms.items() if at in file.parents), str(file.parent))
            for header in INCLUDE.findall(file.read_text(encoding="utf-8")):
                if pathlib.Path(header).with_suffix("") != file.relative_to(root).with_suffix(""):
                    readers.setdefault(header, set()).add(room)
    found: dict[str, list[pathlib.Path]] = {}
    for header, names in readers.items():
        name, at = next(iter(names)), root / header
        if len(names) == 1 and name in rooms and at.parent == rooms[name].parent:
            found.setdefault(name, []).extend(at.parent.glob(at.stem + ".*"))
    return found


def lines_of(room: pathlib.Path, beside: list[pathlib.Path]) -> int:
    """Lines of all files in a room and below it, and of those `beside` it, without blank lines and
    comments."""
    return sum(
        len(CODE.findall(p.read_text(encoding="utf-8")))
        for p in [*room.rglob("*"), *beside]
        if p.is_file() and p.name != "peers.py" and p.suffix not in (".md", ".pyc")
    )


def code_of(build: pathlib.Path) -> dict[str, dict[str, int]]:
    """Bytes of code and constants, by operator or shared file, then by level or "host"."""
    objects = build / "CMakeFiles/dlblas_objects.dir"
    shared = [path for path in objects.glob("cpu/**/*.o") if LEVEL.match(path.name)]
    paths = sorted([*objects.glob("generated/rows/*.o"), *objects.glob("ops/**/*.o"), *shared])
    found: dict[str, dict[str, int]] = {}
    if not paths:
        return found
    table = subprocess.run(["size", *paths], capture_output=True, text=True, check=True).stdout
    for path, row in zip(paths, table.splitlines()[1:], strict=True):
        match = LEVEL.match(path.name)
        parts = path.relative_to(objects).parts  # ops/<family>/<operator>/…, ops/<family>/<file>
        in_folder = parts[0] == "ops" and len(parts) > 3 and parts[2] not in FOLDERS
        name = parts[2] if in_folder else ""
        name = name or (match[1] if match else path.name.removesuffix(".cpp.o"))
        if parts[0] == "cpu" and len(parts) > 2:
            name = f"{parts[1]}/{name}"
        sizes, level = found.setdefault(name, {}), match[2] if match else "host"
        sizes[level] = sizes.get(level, 0) + int(row.split()[0])
    return found


def main() -> int:
    parser = tree.parser(__doc__)
    parser.add_argument("--build", type=pathlib.Path)
    args = parser.parse_args()
    root = args.root.resolve()
    rooms = {room.name: room for room in rooms_of(root)}
    own = beside(root, rooms)
    lines = {op: lines_of(room, own.get(op, [])) for op, room in rooms.items()}
    code = code_of(args.build or root / "build")
    problems = [
        f"{op}: {n} lines; at most {LONGER.get(op, (MAX_LINES,))[0]}"
        for op, n in lines.items()
        if n > LONGER.get(op, (MAX_LINES,))[0] and (rooms[op] / f"{op}_program.hpp").exists()
    ]
    problems += [
        f"{op}: {lines[op]} lines; LONGER need not name it"
        for op in LONGER
        if op in lines and lines[op] <= MAX_LINES
    ]
    told = []
    for op in [*lines, *sorted({*code} - {*lines})]:
        sizes = code.get(op, {})
        most = max((n for level, n in sizes.items() if level != "host"), default=0)
        if most > MAX_BYTES:
            problems.append(f"{op}: {most} bytes of code; at most {MAX_BYTES}")
        told.append(
            op
            + (f" {lines[op]} lines" if op in lines else "")
            + (f" {most / 1000:.0f} kB" if most else "")
            + (f" (host {sizes['host'] / 1000:.0f})" if "host" in sizes else "")
        )
    return tree.report("operator size", problems, ", ".join(told))


if __name__ == "__main__":
    sys.exit(main())
