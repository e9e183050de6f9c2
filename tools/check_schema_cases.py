#!/usr/bin/env python3
"""Checks every operator's cases.json against tools/cases.schema.json and against the operators of
the built library.

Asking the library for its operators also proves that every schema parses: a bad one fails at
registration.
"""

from __future__ import annotations

import ctypes
import json
import pathlib
import sys
from typing import Any

import jsonschema
import tree


def operators(library: pathlib.Path) -> dict[str, set[str]]:
    """Operator name -> the letters of its schema, as the library reports them."""
    lib = ctypes.CDLL(str(library))
    text = ctypes.c_void_p()
    if lib.dlblas_info(ctypes.byref(text)) != 0 or not text.value:
        raise SystemExit("schema and cases: dlblas_info failed; run `python -m dlblas info`")
    info = json.loads(ctypes.string_at(text.value))
    lib.dlblas_free(text)
    return {op["name"]: {row["name"] for row in op["letters"]} for op in info["operators"]}


def problems_of(path: str, cases: Any, rules: Any, known: dict[str, set[str]] | None) -> list[str]:
    problems = []
    for error in jsonschema.Draft202012Validator(rules).iter_errors(cases):
        place = "/".join(str(part) for part in error.absolute_path)
        problems.append(f"{path}: at {place or 'the top'}: {error.message}")
    if problems:
        return problems
    seen: set[tuple[str, str]] = set()
    for case in cases:
        key = (case["op"], case["name"])
        if key in seen:
            problems.append(f"{path}: {case['op']} has two cases named {case['name']}")
        seen.add(key)
        if known is None:
            continue
        if case["op"] not in known:
            problems.append(f"{path}: case {case['name']} is of the unknown operator {case['op']}")
        elif known[case["op"]] != set(case["dims"]):
            wanted = ", ".join(sorted(known[case["op"]]))
            got = ", ".join(sorted(case["dims"]))
            problems.append(
                f"{path}: case {case['name']} has dims {got}; {case['op']} wants {wanted}"
            )
    return problems


def main() -> int:
    parser = tree.parser(__doc__)
    parser.add_argument("--library", type=pathlib.Path)
    parser.add_argument("--no-library", action="store_true", help="check the files alone")
    args = parser.parse_args()
    root = args.root.resolve()
    library = args.library or root / "build" / "libdlblas.so"
    known = None if args.no_library else operators(library)
    rules = json.loads((tree.ROOT / "tools" / "cases.schema.json").read_text())
    problems, num_cases, with_cases = [], 0, set()
    for path in sorted((root / "ops").rglob("cases.json")):
        cases = json.loads(path.read_text())
        problems += problems_of(str(path.relative_to(root)), cases, rules, known)
        num_cases += len(cases)
        with_cases |= {case["op"] for case in cases if isinstance(case, dict) and "op" in case}
    for op in sorted(set(known or {}) - with_cases):
        problems.append(f"operator {op} has no case in any cases.json")
    return tree.report(
        "schema and cases", problems, f"{len(known or {})} schemas, {num_cases} cases"
    )


if __name__ == "__main__":
    sys.exit(main())
