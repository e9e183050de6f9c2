#!/usr/bin/env python3
"""Checks every row kernel on a GPU against f64, in the layouts of serving code.

Runs on a machine with torch and a GPU, with a package that was built elsewhere: --package names
the folder that holds dlblas/. Out: the number of calls, and the errors; exit code 1 if a result is
wrong. Takes half a minute. It measures no times: ``dlblas bench gpu_rows`` does. Read next:
src/kernels/rows_cuda.cpp.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import itertools
import os
import sys
import time
from typing import Any

WIDTHS = (
    1,
    3,
    8,
    64,
    100,
    127,
    128,
    1000,
    1001,
    2048,
    4094,
    4095,
    4096,
    8192,
    20000,
    65536,
    100003,
)


def parts_of(op: str) -> int:
    return 2 if op == "silu_and_mul" else 1


def exact(torch: Any, op: str, x: Any) -> Any:
    x = x.double()
    if op == "softmax":
        return torch.softmax(x, -1)
    gate, up = x.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


def layouts(torch: Any, width: int, dtype: Any) -> dict[str, Any]:
    """Inputs of one width: contiguous ones, and the other layouts that serving code passes."""

    def fresh(*shape: int) -> Any:
        return (torch.randn(*shape, device="cuda") * 3).to(dtype)

    rows = 5 if width > 20000 else 33
    heads = fresh(7, 6, width)
    return {
        "contiguous": fresh(rows, width),
        "one_row": fresh(1, width),
        "row_strided": fresh(rows, width + 8)[:, :width],
        "heads": heads[:, 1:4],  # [T, H, D] out of a fused projection
        "element": fresh(rows * width + 1)[1:].view(rows, width),  # rows at odd elements
        "transposed": fresh(width, 3).t(),
        "infinite": torch.full((2, width), -torch.inf, device="cuda", dtype=dtype),
    }


def warm(dlblas: Any, op: str, inputs: list[Any]) -> None:
    """Compiles in parallel; unsupported inputs are skipped."""

    def one(x: Any) -> None:
        with contextlib.suppress(dlblas.errors.UnsupportedError):
            dlblas.warmup(op, x)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, inputs))


def check(torch: Any, dlblas: Any, op: str, deadline: float) -> tuple[int, list[str]]:
    """Runs every CUDA implementation at every width, dtype and layout: (calls, errors)."""
    run = getattr(dlblas, op)
    wrong: list[str] = []
    count = 0
    names = [
        impl["name"]
        for row in dlblas.info()["operators"]
        if row["name"] == op
        for impl in row["implementations"]
        if impl["name"].startswith("cuda_")
    ]
    dtypes = (torch.bfloat16, torch.float16, torch.float32)
    inputs = {
        (dtype, width, name): x
        for dtype, width in itertools.product(dtypes, WIDTHS)
        for name, x in layouts(torch, width * parts_of(op), dtype).items()
    }
    want = {key: exact(torch, op, x) for key, x in inputs.items()}
    for impl in names:
        with dlblas.pinned(op, impl):
            warm(dlblas, op, list(inputs.values()))
            served = 0
            for key, x in inputs.items():
                if time.monotonic() > deadline:
                    return count, [*wrong, f"{op} {impl}: no time left for all shapes"]
                try:
                    y = run(x)
                except dlblas.errors.UnsupportedError:
                    continue
                served += 1
                got, ref = y.double(), want[key]
                tolerance = {torch.float32: 2e-5, torch.float16: 1e-3, torch.bfloat16: 8e-3}[key[0]]
                floor = {torch.float32: 1e-30, torch.float16: 6e-8, torch.bfloat16: 1e-30}[key[0]]
                bad = (got - ref).abs() > tolerance * ref.abs() + floor
                bad |= got.isnan() != ref.isnan()
                if bool(bad.any()):
                    wrong.append(f"{op} {impl} {key}: {int(bad.sum())} of {bad.numel()} elements")
            count += served
            print(f"  {op} {impl}: {served} calls right" if not wrong else f"  {op} {impl}: wrong")
    return count, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--package", default="build/python", help="the folder that holds dlblas/")
    parser.add_argument("--seconds", type=float, default=170)
    parser.add_argument("--op", help="this operator alone")
    args = parser.parse_args()
    start = time.monotonic()
    sys.path.insert(0, os.path.abspath(args.package))
    import dlblas
    import torch

    problems: list[str] = []
    for op in [args.op] if args.op else ["softmax", "silu_and_mul"]:
        count, wrong = check(torch, dlblas, op, start + args.seconds)
        print(f"{op}: {count} calls against f64, {len(wrong)} wrong", flush=True)
        problems += wrong
    print("\n".join(f"gpu_rows: {problem}" for problem in problems) or "gpu_rows: all well")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
