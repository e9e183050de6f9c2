#!/usr/bin/env python3
"""The row kernels on a GPU in one call: right against f64, and how fast beside a copy and Inductor.

Runs on a machine with torch and a GPU, with a package that was built elsewhere: --package names
the folder that holds dlblas/. Out: a table; 1 when a result is wrong or a kernel is slower than
--limit times its recorded time. About two minutes; Inductor takes what is left of --seconds. Times:
CUDA graphs over rotating tensors of at least 400 MB, medians of interleaved replays. Read next:
src/kernels/rows_cuda.cpp, docs/testing.md.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

RECORDED = {  # (operator, rows, columns): µs of the first row kernels, bf16 on H200, 2026-11-22
    ("softmax", 16384, 4096): 64.66,
    ("softmax", 4096, 8192): 33.41,
    ("softmax", 131072, 128): 17.52,
    ("softmax", 128, 4096): 2.11,
    ("softmax", 1024, 65536): 66.27,
    ("softmax", 16, 4194304): None,
    ("silu_and_mul", 16384, 11264): 254.1,
    ("silu_and_mul", 128, 11264): 3.41,
}
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
ROTATED_BYTES = 400 << 20
REPLAYS = 9


def parts_of(op: str) -> int:
    return 2 if op == "silu_and_mul" else 1


def exact(torch: Any, op: str, x: Any) -> Any:
    x = x.double()
    if op == "softmax":
        return torch.softmax(x, -1)
    gate, up = x.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


def layouts(torch: Any, width: int, dtype: Any) -> dict[str, Any]:
    """Inputs of one width: what serving code passes beside contiguous tensors."""

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
    """Compiles side by side; what is not supported stays so."""

    def one(x: Any) -> None:
        with contextlib.suppress(dlblas.errors.UnsupportedError):
            dlblas.warmup(op, x)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, inputs))


def check(torch: Any, dlblas: Any, op: str, deadline: float) -> tuple[int, list[str]]:
    """Every CUDA implementation at every width, dtype and layout; what is wrong."""
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


class Timed:
    """A call on rotating tensors, captured once."""

    def __init__(self, torch: Any, calls: list[Callable[[], Any]]) -> None:
        self.count = len(calls)
        calls[0]()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for call in calls:
                call()
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self.samples: list[float] = []

    def replay(self, torch: Any) -> None:
        self.events[0].record()
        self.graph.replay()
        self.events[1].record()
        torch.cuda.synchronize()
        self.samples.append(self.events[0].elapsed_time(self.events[1]) * 1e3 / self.count)

    def median(self) -> float:
        return statistics.median(self.samples[1:])


def measure(
    torch: Any, dlblas: Any, op: str, rows: int, width: int, inductor: bool
) -> dict[str, float | str]:
    elements = rows * width
    call_bytes = elements * 2 * (parts_of(op) + 1)
    sets = max(2, min(256, -(-ROTATED_BYTES // call_bytes)))
    xs = [torch.randn(rows, width * parts_of(op), device="cuda").bfloat16() for _ in range(sets)]
    ys = [torch.empty(rows, width, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
    run = getattr(dlblas, op)
    half = call_bytes // 4
    sources = [torch.empty(half, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
    tos = [torch.empty(half, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]
    found: dict[str, Timed] = {}
    pairs = list(zip(xs, ys, strict=True))

    def ours() -> Timed:
        return Timed(torch, [lambda x=x, y=y: run(x, out=y) for x, y in pairs])  # type: ignore[misc]

    found["dlblas"] = ours()
    for impl in ("cuda_registers", "cuda_cluster", "cuda_shared", "cuda_rows"):
        try:
            with dlblas.pinned(op, impl):
                found[impl] = ours()
        except (dlblas.errors.UnsupportedError, dlblas.errors.Error):
            continue
    found["copy"] = Timed(
        torch,
        [lambda a=a, b=b: b.copy_(a) for a, b in zip(sources, tos, strict=True)],  # type: ignore[misc]
    )
    if inductor:
        plain = {
            "softmax": lambda x: torch.softmax(x, -1),
            "silu_and_mul": lambda x: torch.nn.functional.silu(x[:, :width]) * x[:, width:],
        }[op]
        compiled = torch.compile(plain, dynamic=False)
        found["inductor"] = Timed(torch, [lambda x=x: compiled(x) for x in xs])  # type: ignore[misc]
    for _ in range(REPLAYS + 1):
        for timed in found.values():
            timed.replay(torch)
    chosen = dlblas.explain(op, xs[0]) if hasattr(dlblas, "explain") else ""
    line = next((s for s in str(chosen).splitlines() if "cuda_" in s), "")
    return {**{name: timed.median() for name, timed in found.items()}, "chosen": line.strip()[:110]}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--package", default="build/package", help="the folder that holds dlblas/")
    parser.add_argument("--seconds", type=float, default=170)
    parser.add_argument("--limit", type=float, default=1.05, help="of the recorded times")
    parser.add_argument("--op", help="this operator alone")
    parser.add_argument("--no-check", action="store_true", help="times alone")
    args = parser.parse_args()
    start = time.monotonic()
    sys.path.insert(0, os.path.abspath(args.package))
    import dlblas
    import torch

    operators = [args.op] if args.op else ["softmax", "silu_and_mul"]
    problems: list[str] = []
    if not args.no_check:
        for op in operators:
            count, wrong = check(torch, dlblas, op, start + args.seconds * 0.6)
            print(f"{op}: {count} calls against f64, {len(wrong)} wrong", flush=True)
            problems += wrong
    print(f"{'operator':14} {'rows':>7} {'columns':>8}  µs by implementation", flush=True)
    for (op, rows, width), recorded in RECORDED.items():
        if op not in operators:
            continue
        left = args.seconds - (time.monotonic() - start)
        figures = measure(torch, dlblas, op, rows, width, inductor=left > 40)
        chosen = figures.pop("chosen")
        text = "  ".join(f"{name} {value:.2f}" for name, value in figures.items())
        ratio = float(figures["dlblas"]) / recorded if recorded else 0.0
        print(f"{op:14} {rows:7} {width:8}  {text}  | recorded {recorded}, ratio {ratio:.3f}")
        print(f"{'':32} {chosen}", flush=True)
        if ratio > args.limit:
            problems.append(f"{op} {rows}×{width}: {ratio:.3f} of the recorded time")
        torch.cuda.empty_cache()
    print("\n".join(f"gpu_rows: {problem}" for problem in problems) or "gpu_rows: all well")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
