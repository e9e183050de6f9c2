"""``dlblas compile``: compiles a GPU's kernels into the disk cache; the GPU need not be present.

In: an architecture, and problems from a file, of one operator, or from every operator's cases. Out:
one line per architecture. A later process with that GPU, the same compiler and the same cache
compiles nothing for these problems. Read next: _missed.py, docs/jit.md.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from . import _missed, _native, _specs, tuning
from ._cli_show import FAILED, OK, print_json
from ._streams import complain
from ._text import cut
from .errors import Error

_MAX_SHOWN = 10  # failures
Problem = tuple[str, dict[str, Any]]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ops", nargs="*", metavar="op", help="as --op")
    parser.add_argument(
        "--arch", action="append", required=True, metavar="sm_90a", help="of the GPU; repeatable"
    )
    parser.add_argument(
        "--missed",
        metavar="FILE",
        help='a problem a line, as dlblas.missed writes it, or {"op": …, "dims": {…}, "dtype": …}',
    )
    parser.add_argument(
        "--op", action="append", default=[], metavar="NAME",
        help="these operators alone; repeatable (default: all)",
    )  # fmt: skip
    parser.add_argument("--dims", help="one problem of one --op: T=512,C=4096")
    parser.add_argument("--dtype", default="", help="of --dims, or those cases alone: bf16")
    parser.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _of_cases(row: dict[str, Any], dtype: str, device: str) -> Iterator[Problem]:
    for case in _specs.cases(row, "tune") or _specs.cases(row, "test"):
        for name in case["dtypes"]:
            if dtype in ("", name):
                named = _specs.named_arguments(
                    row, case["dims"], {"": name}, case.get("args", {}), device
                )
                yield row["name"], named


def _problems(args: argparse.Namespace, device: str) -> list[Problem]:
    ops = [*args.ops, *args.op]
    if args.dims is not None:
        if len(ops) != 1:
            got = str(len(ops))
            raise _specs.refuse(
                "compile", "--dims", "is of one operator", "one --op", got, "name it"
            )
        return [_missed.arguments(ops[0], args.dims, args.dtype, args.arg, device)]
    found = list(_missed.problems(args.missed, device)) if args.missed else []
    if args.missed and not ops:
        return found
    info = _native.info()
    names = [_specs.operator_row(name, info)[0]["name"] for name in ops]
    for row in info["operators"]:
        if not names or row["name"] in names:
            found += _of_cases(row, args.dtype, device)
    return found


def _compile(problem: Problem) -> str:
    """The error text, or an empty string."""
    form, named = problem
    try:
        tuning.warmup(form, **named)
    except Error as error:
        return f"{form}: {error}"
    return ""


def command(args: argparse.Namespace) -> int:
    cache = _native.info()["cache"]
    if cache["memory_only_because"]:
        raise _specs.refuse(
            "compile", "cache", "keeps nothing", "a folder that can be written",
            cache["memory_only_because"], "set DLBLAS_CACHE",
        )  # fmt: skip
    archs = [_specs.choose_device(arch, absent=True) for arch in args.arch]
    rows = []
    for arch in archs:
        problems = _problems(args, arch)
        before = _native.counters()["compiled"]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            failures = [words for words in pool.map(_compile, problems) if words]
        compiled = _native.counters()["compiled"] - before
        rows.append({"arch": arch, "problems": len(problems), "compiled": compiled,
                     "failures": failures})  # fmt: skip
        for words in failures[:_MAX_SHOWN]:
            complain(cut(words, 2000))
        if not args.json:
            failed = f", {len(failures)} failed" if failures else ""
            print(f"{arch}: {len(problems)} problems{failed}, {compiled} kernels compiled")
    if args.json:
        print_json({"cache": cache["path"], "archs": rows})
    else:
        print(f"cache: {cache['path']}")
    return FAILED if any(row["failures"] for row in rows) else OK
