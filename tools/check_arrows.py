#!/usr/bin/env python3
"""Checks which folder may include which, that src/ and bindings/ name no operator, that files under
ops/ open their family's namespace, and that only tuner measures time.

The allowed includes are the arrows of docs/architecture.md and their transitive closure. The wheel
test checks python -> bindings: the package contains only the library. Any file may include
generated files (generated/…, <dlblas/version.h>).
"""

from __future__ import annotations

import pathlib
import re
import sys

import tree

ARROWS = {
    "bindings": ["include", "graph", "cpu"],
    "include": ["abi"],
    "ops": ["kernels", "registry", "jit", "cuda", "core", "device", "cpu"],
    "kernels": ["registry", "jit", "cuda", "device", "cpu"],
    "graph": ["tuner"],
    "tuner": ["dispatch"],
    "dispatch": ["registry", "jit", "abi"],
    "jit": ["cuda", "store"],
    "registry": ["core"],
    "cuda": ["core", "device"],
    "store": ["core"],
    "cpu": ["core", "device"],
    "core": ["device"],
    "device": [],
    "abi": [],
    "examples": ["include"],
    "tools": ["include", "dispatch"],
}
# The C header, a layer of its own: plain values, no dependencies. A call's first stage takes them.
ABI = "include/dlblas/dlblas.h"
CLOCK = re.compile(r"\b(steady_clock|high_resolution_clock|clock_gettime|__rdtscp?|perf_counter)\b")
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{")
# Namespaces for the entries of objects of one instruction set; cpu/simd.hpp says why.
LEVELS = {"DLBLAS_ISA", "avx512", "avx2", "baseline"}
# An operator's schema begins a string literal: "rms_norm(x: f[*T, C], …
SCHEMA = re.compile(r'(?:"|R"\w*\()\s*([a-z][a-z0-9_]*)\(\s*\w+[!?]?:\s')


def layer_of(path: str) -> str:
    parts = path.split("/")
    if path == ABI:
        return "abi"
    return parts[1] if parts[0] == "src" else parts[0]


def reachable(layer: str) -> set[str]:
    seen, pending = {layer}, [layer]
    while pending:
        for below in ARROWS.get(pending.pop(), []):
            if below not in seen:
                seen.add(below)
                pending.append(below)
    return seen


def family_of(path: str) -> str | None:
    parts = path.split("/")
    return parts[1] if parts[0] == "ops" and parts[1] != "common" else None


def check_includes(root: pathlib.Path, path: str) -> list[str]:
    layer, problems = layer_of(path), []
    if layer not in ARROWS:
        return [f"{path}: src/{layer} is not a folder of the architecture"]
    for name in tree.includes(root, root / path):
        if name.startswith("generated/") or name in ("dlblas/version.h", "dlblas/ops.hpp"):
            continue
        target = layer_of(name)
        if target not in reachable(layer):
            problems.append(f"{path}: {layer} may not include {target} ({name})")
        elif family_of(path) and family_of(name) not in (None, family_of(path)):
            problems.append(
                f"{path}: family {family_of(path)} includes family {family_of(name)} ({name})"
            )
    return problems


def check_namespaces(root: pathlib.Path, path: str, families: set[str]) -> list[str]:
    """A file under ops/ opens dlblas::<family> or an instruction set's namespace, and others only
    inside these; a file above the families (ops/common/) may open any family's."""
    if layer_of(path) != "ops":
        return []
    family = family_of(path)
    allowed = {family} if family else families
    code = tree.without_comments((root / path).read_text())
    problems, first = [], True
    for number, line in enumerate(code.splitlines(), 1):
        if not (found := NAMESPACE.match(line)):
            continue
        outer, *inner = found[1].split("::")
        if (first or outer == "dlblas") and (
            outer != "dlblas" or not allowed.union(LEVELS).intersection(inner[:1])
        ):
            right = family or "<family>"
            problems.append(f"{path}:{number}: opens {found[1]}; expected dlblas::{right}")
        first = False
    return problems


def operators(root: pathlib.Path) -> set[str]:
    texts = (p.read_text() for p in tree.files(root, [".cpp", ".hpp"], ["ops"]))
    return {name for text in texts for name in SCHEMA.findall(tree.without_comments(text))}


def check_text(root: pathlib.Path, path: str, names: set[str]) -> list[str]:
    code, problems = tree.without_comments((root / path).read_text()), []
    for number, line in enumerate(code.splitlines(), 1):
        if layer_of(path) != "tuner" and (clock := CLOCK.search(line)):
            problems.append(f"{path}:{number}: {clock[0]} outside src/tuner, which alone measures")
        if path.startswith(("src/", "bindings/")):
            for name in names.intersection(re.findall(r"\w+", line)):
                problems.append(f"{path}:{number}: names the operator {name}")
    return problems


def main() -> int:
    root = tree.parser(__doc__).parse_args().root.resolve()
    names = operators(root)
    dirs = [*tree.SOURCE_DIRS, "examples", "tools"]
    paths = [
        str(p.relative_to(root)) for p in tree.files(root, [".cpp", ".hpp", ".h", ".cuh"], dirs)
    ]
    families = {family for path in paths if (family := family_of(path))}
    problems = []
    for path in paths:
        problems += check_includes(root, path) + check_namespaces(root, path, families)
        if layer_of(path) not in ("examples", "tools"):
            problems += check_text(root, path, names)
    return tree.report("arrows", problems, f"{len(paths)} files, {len(names)} operators")


if __name__ == "__main__":
    sys.exit(main())
