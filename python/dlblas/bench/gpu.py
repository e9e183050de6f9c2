"""What the GPU benchmarks measure, in a process with the empty store that ``bench.run`` chose.

``python -m dlblas.bench.gpu`` with a JSON request on stdin: section, quick, seconds, file for the
rows. "Ours" is what the library itself chooses after a search of ``seconds`` per key; the variants
beside it are each CUDA implementation with its default configuration. Ratios are a peer's median
over ours. With "prepare" (an operator), only its peers run, once, so that they compile: one line
of text per problem, no rows. Needs torch. Read next: gpu_timing.py (how), peers.py (the peers).
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

import dlblas
from dlblas.bench import (
    deep_gemm,
    gpu_attention,
    gpu_chain,
    gpu_compile,
    gpu_llama,
    gpu_model,
    gpu_products,
    gpu_rows,
    peers,
)
from dlblas.bench.gpu_contest import Contest, entry
from dlblas.bench.gpu_session import Session
from dlblas.bench.gpu_timing import Rotation, Run, host_time, one_line
from dlblas.bench.life import end_with_parent

Row = dict[str, Any]

_NORMS = [
    (1, 4096), (128, 4096), (4096, 4096), (16384, 4096), (4096, 8192), (16384, 8192),
    (131072, 128), (262144, 64), (65536, 256),
]  # fmt: skip
_LONG = [(1024, 65536), (256, 262144), (16, 4194304)]
_BACKWARD = [(16384, 4096)]
_MATMUL = [  # M, N, K; the first eight are large
    (4096, 4096, 4096), (8192, 8192, 8192), (16384, 11264, 4096), (4096, 7168, 2048),
    (4096, 2112, 7168), (4096, 24576, 1536), (4096, 4096, 7168), (4096, 7168, 16384),
    (128, 7168, 2048), (64, 14336, 4096), (16, 4096, 4096), (1, 4096, 4096),
]  # fmt: skip
_LARGE = 8
_LIBRARIES = ("cublas", "cudnn")  # rivals in the registry, no kernels of ours


def card() -> Row:
    """The card's current state, from nvidia-smi. Nothing here sets a clock."""
    fields = ["name", "driver_version", "clocks.sm", "clocks.mem", "temperature.gpu",
              "clocks_throttle_reasons.active"]  # fmt: skip
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return {"name": torch.cuda.get_device_name(), "driver": ""}
    values = [value.strip() for value in done.stdout.splitlines()[0].split(",")]
    named = dict(zip(fields, values, strict=False))
    return {
        "name": named["name"],
        "driver": named["driver_version"],
        "clocks": {
            "sm_mhz": named.get("clocks.sm"),
            "memory_mhz": named.get("clocks.mem"),
            "celsius": named.get("temperature.gpu"),
            "throttle": named.get("clocks_throttle_reasons.active"),
        },
    }


def _plan(call: dlblas.Operation) -> tuple[str, str]:
    plan = call.explain().as_dict()
    return plan["implementation"], plan["config"]


class GpuBench(Session):
    """One method per section; each yields one row per problem."""

    def __init__(self, request: Row) -> None:
        super().__init__(request)
        self.ops: tuple[str, ...] = (request["prepare"],) if self.preparing else _NORM_OPS

    # --- norms ------------------------------------------------------------------------------------

    def gpu_norm(self) -> Iterator[Row]:
        for problem in [(8, 256), (3, 64)] if self.quick else _NORMS:
            for op in self.ops:
                yield self._norm("gpu_norm", op, *problem)

    def gpu_norm_long(self) -> Iterator[Row]:
        for problem in [(2, 65536)] if self.quick else _LONG:
            for op in self.ops:
                yield self._norm("gpu_norm_long", op, *problem)

    def _norm_arrays(self, op: str, rows: int, width: int) -> tuple[peers.NormArrays, Rotation]:
        streams = 2 if op == "add_rms_norm" else 1
        turn = self.rotation(2 * streams * rows * width * 2)
        shape = (turn.sets, rows, width)
        x, weight = self.normal(*shape), self.normal(width, scale=0.1, offset=1.0)
        residual = self.normal(*shape) if streams == 2 else None
        total = torch.empty_like(x) if streams == 2 else None
        arrays = peers.NormArrays(x, weight, residual, torch.empty_like(x), total)
        return arrays, turn

    def _norm(self, what: str, op: str, rows: int, width: int) -> Row:
        torch.compiler.reset()  # another problem is another program: no recompilation limit
        arrays, turn = self._norm_arrays(op, rows, width)
        _, _, _, y, total = arrays
        contest, problem = Contest(op, self.rounds), {"T": rows, "C": width}
        chosen = ("", "") if self.preparing else self._search_norm(op, arrays)
        contest.took("search")
        if not self.preparing:
            self._add_norms(contest, op, arrays)
        for peer in peers.norm_peers():
            if isinstance(peer, peers.Missing):
                contest.missing(peer.name, peer.why)
                continue
            try:
                contest.add(peer.name, peer.version, peer.make(arrays))
            except Exception as error:
                contest.missing(peer.name, one_line(error), peer.version)
        contest.check(
            _norm_reference(arrays), lambda: (y[0], total[0] if total is not None else None)
        )
        if self.preparing:
            return contest.prepared(what, problem)
        contest.hold(turn)
        row = contest.row(what, problem, *chosen)
        row["bytes"] = turn.bytes_a_set
        return row

    def _search_norm(self, op: str, arrays: peers.NormArrays) -> tuple[str, str]:
        x, weight, residual, _, _ = arrays
        tensors = (x[0], weight) if residual is None else (x[0], weight, residual[0])
        return _plan(dlblas.get_op(op, tensors, seconds=self.seconds))

    def _add_norms(self, contest: Contest, op: str, arrays: peers.NormArrays) -> None:
        """Ours: what the search chose, and each implementation with its default configuration."""
        x, weight, residual, y, total = arrays
        function = getattr(dlblas, op)

        def run(i: int) -> Any:
            if residual is None or total is None:
                return function(x[i], weight, out=y[i])
            return function(x[i], weight, residual[i], out=(y[i], total[i]))

        contest.add("dlblas", dlblas.__version__, run)
        for name in self.cuda_implementations(op):
            contest.add(f"default {name}", "", run, functools.partial(dlblas.pin, op, name))

    # --- backward ---------------------------------------------------------------------------------

    def gpu_norm_backward(self) -> Iterator[Row]:
        for problem in [(64, 256)] if self.quick else _BACKWARD:
            yield self._backward(*problem)

    def _backward(self, rows: int, width: int) -> Row:
        needed = 3 * rows * width * 2 + 2 * width * 2  # x and dy read, dx written; weight, dweight
        turn = self.rotation(needed)
        sets = turn.sets
        x, dy = self.normal(sets, rows, width), self.normal(sets, rows, width)
        weight = self.normal(width, scale=0.1, offset=1.0)
        op = "rms_norm_backward"
        contest = Contest(op, self.rounds)
        chosen, problem = ("", ""), {"T": rows, "C": width}
        if op in dlblas.list_operators() and not self.preparing:
            named = {"dy": dy[0], "x": x[0], "weight": weight}
            chosen = _plan(dlblas.get_op(op, (), kwargs=named, seconds=self.seconds))
        contest.took("search")
        with torch.cuda.stream(contest.stream):
            for name, (version, make) in peers.backward_peers(dlblas.rms_norm).items():
                if self.preparing and name == "dlblas":
                    continue
                try:
                    made = [make(x[i], weight, dy[i]) for i in range(sets)]
                    contest.add(name, version, functools.partial(_run_made, made))
                except Exception as error:
                    contest.missing(name, one_line(error), version)
        to = torch.empty_like(x)
        contest.add(peers.COPY, torch.__version__, lambda i: to[i].copy_(x[i]))
        contest.check(_backward_reference(x[0], weight, dy[0]), None)
        if self.preparing:
            return contest.prepared("gpu_norm_backward", problem)
        contest.hold(turn)
        row = contest.row("gpu_norm_backward", problem, *chosen)
        row["bytes"] = needed
        copied = next(p for p in row["peers"] if p["name"] == peers.COPY)
        if "median_ms" in copied and "median_ms" in row["ours"]:  # rates, not times: bytes differ
            copy_rate = 2 * rows * width * 2 / copied["median_ms"]
            row["against"], row["ratio"] = (
                "copy rate",
                needed / row["ours"]["median_ms"] / copy_rate,
            )
        return row

    # --- matrix product ---------------------------------------------------------------------------

    def gpu_matmul(self) -> Iterator[Row]:
        for i, problem in enumerate([(64, 128, 256)] if self.quick else _MATMUL):
            yield self._matmul(*problem, large=i < _LARGE)

    def _matmul(self, m: int, n: int, k: int, large: bool) -> Row:
        turn = self.rotation(2 * (m * k + n * k + m * n))
        sets = turn.sets
        a, b = self.normal(sets, m, k), self.normal(sets, n, k, scale=k**-0.5)
        b = b.transpose(1, 2)  # [K, N] as nn.Linear has it: D = A·Bᵀ in the tables of the field
        out = torch.empty((sets, m, n), device="cuda", dtype=torch.bfloat16)
        contest = Contest("matmul", self.rounds)
        call = dlblas.get_op("matmul", (a[0], b[0]), seconds=self.seconds)

        def run(i: int) -> Any:
            return dlblas.matmul(a[i], b[i], out=out[i])

        contest.add("dlblas", dlblas.__version__, run)
        names = self.cuda_implementations("matmul")
        own = [name for name in names if not name.startswith(_LIBRARIES)]
        for name in names:
            contest.add(f"default {name}", "", run, functools.partial(dlblas.pin, "matmul", name))
        if own and large:
            self._best_own(contest, own, a[0], b[0], run)
        contest.took("search")
        version = f"{torch.__version__} (cuBLAS)"
        contest.add("cublas", version, lambda i: torch.matmul(a[i], b[i], out=out[i]))
        for name, rival in deep_gemm.matmul(a, b.mT, out).items():
            contest.add(name, "", rival)
        reference = a[0].float() @ b[0].float()
        contest.check((reference,), lambda: (out[0],))
        contest.hold(turn)
        row = contest.row("gpu_matmul", {"M": m, "N": n, "K": k}, *_plan(call))
        row["flops"], row["large"] = 2 * m * n * k, large
        return row

    def _best_own(self, contest: Contest, own: list[str], a: Any, b: Any, run: Run) -> None:
        """Adds our own kernels' best configuration, even if a library's kernel won the search."""
        try:
            report = dlblas.tune("matmul", (a, b), implementations=own, seconds=self.seconds)
        except dlblas.Error as error:
            contest.missing("own tuned", one_line(error))
            return
        best = report["winner"]
        pin = functools.partial(dlblas.pin, "matmul", best["implementation"], best["config"])
        contest.add("own tuned", f"{best['implementation']} {best['config']}".strip(), run, pin)

    # --- the host's side of a call ----------------------------------------------------------------

    def gpu_host(self) -> Iterator[Row]:
        """Time of the caller's thread, launch included, on one row, so that the device keeps up."""
        x, weight = self.normal(1, 4096), self.normal(4096, scale=0.1, offset=1.0)
        y, width = torch.empty_like(x), (4096,)
        dlblas.get_op("rms_norm", (x, weight), seconds=self.seconds)
        dlblas.rms_norm(x, weight)  # torch's operators exist from here on
        ops = torch.ops.dlblas
        out_op, plain_op, torch_norm = ops.rms_norm_out, ops.rms_norm, torch.nn.functional.rms_norm
        compiled = torch.compile(peers.eager_rms_norm, dynamic=False)
        ours: dict[str, Callable[[], Any]] = {
            "torch.ops.dlblas.rms_norm_out(x, w, y)": lambda: out_op(x, weight, y),
            "torch.ops.dlblas.rms_norm(x, w)": lambda: plain_op(x, weight),
            "dlblas.rms_norm(x, w, out=y)": lambda: dlblas.rms_norm(x, weight, out=y),
            "dlblas.rms_norm(x, w)": lambda: dlblas.rms_norm(x, weight),
        }
        others: dict[str, Callable[[], Any]] = {
            "torch.add(x, x)": lambda: torch.add(x, x),
            "torch.add(x, x, out=y)": lambda: torch.add(x, x, out=y),
            "F.rms_norm": lambda: torch_norm(x, width, weight, peers.EPS),
            "inductor": lambda: compiled(x, weight),
        }
        times = host_time({**ours, **others}, 3 if self.quick else 30, 200)
        rivals = [entry(name, torch.__version__, times[name]) for name in others]
        against = "torch.add(x, x)"
        for name in ours:
            yield {
                "what": "gpu_host",
                "op": "rms_norm",
                "problem": {"call": name},
                "dtype": "bf16",
                "method": {"clock": "steady", "statistic": "median", "n": len(times[name].ms)},
                "ours": entry(name, dlblas.__version__, times[name]),
                "peers": rivals,
                "against": against,
                "ratio": times[against].median_ms / times[name].median_ms,
            }

    # --- cold compilation -------------------------------------------------------------------------

    def gpu_compile(self) -> Iterator[Row]:
        yield from gpu_compile.implementations(
            (op, name)
            for op in (*_NORM_OPS, "matmul")
            for name in self.cuda_implementations(op)
            if not name.startswith(_LIBRARIES)
        )
        yield from gpu_compile.other_kernels()


_NORM_OPS = ("rms_norm", "add_rms_norm")


def _run_made(made: list[Callable[[], Any]], i: int) -> Any:
    return made[i]()


def _norm_reference(arrays: peers.NormArrays) -> tuple[torch.Tensor, ...]:
    x, weight, residual = arrays.x[0], arrays.weight, arrays.residual
    if residual is None:
        return (peers.eager_rms_norm(x.float(), weight.float()),)
    y, total = peers.eager_add_rms_norm(x, weight, residual[0])
    return (y.float(), total.float())


def _backward_reference(x: Any, weight: Any, dy: Any) -> tuple[torch.Tensor, ...]:
    wide, gain = x.float().requires_grad_(), weight.float().requires_grad_()
    return torch.autograd.grad(peers.eager_rms_norm(wide, gain), (wide, gain), dy.float())


SECTIONS: dict[str, Callable[[GpuBench], Iterator[Row]]] = {
    "gpu_norm": GpuBench.gpu_norm,
    "gpu_norm_long": GpuBench.gpu_norm_long,
    "gpu_norm_backward": GpuBench.gpu_norm_backward,
    "gpu_rows": gpu_rows.rows,
    "gpu_chain": gpu_chain.rows,
    "gpu_model": gpu_model.rows,
    "gpu_llama": gpu_llama.rows,
    "gpu_matmul": GpuBench.gpu_matmul,
    "gpu_products": gpu_products.rows,
    "gpu_attention": gpu_attention.rows,
    "gpu_host": GpuBench.gpu_host,
    "gpu_compile": GpuBench.gpu_compile,
}


def _measure(rows: Iterator[Row], result: str) -> int:
    """Writes each row to disk before measuring the next: a run cut short keeps its rows."""
    with open(result, "w", encoding="utf-8") as file:
        before = card()
        for row in rows:
            after = card()
            row["card"], row["driver"] = before["name"], before["driver"]
            row["clocks"] = {"before": before.get("clocks"), "after": after.get("clocks")}
            row["torch"] = torch.__version__
            file.write(json.dumps(row) + "\n")
            file.flush()
            before = after
    return 0


def _prepare(rows: Iterator[Row]) -> int:
    """Prints one line per problem; returns 1 if only the copy ever ran: nothing was prepared."""
    ran = 0
    for row in rows:
        dims = " ".join(f"{name}={value}" for name, value in row["problem"].items())
        done = [f"{name} {s:.1f} s" for name, s in row["ran"].items() if name != peers.COPY]
        not_done = [f"not {name}: {why}" for name, why in row["missing"].items()]
        print(f"{row['what']} {row['op']} {dims}: {', '.join(done + not_done)}", flush=True)
        ran += len(done)
        torch.cuda.empty_cache()  # tests beside it ask what memory is free
    return 0 if ran else 1


def main() -> int:
    request = json.load(sys.stdin)
    end_with_parent(request["parent"])
    if not torch.cuda.is_available():
        sys.stderr.write(f"{request['section']}: torch sees no CUDA device\n")
        return 2
    try:
        bench = GpuBench(request)
        print(
            f"{request['section']}: begins after {time.time() - request['asked']:.1f} s", flush=True
        )
        rows = SECTIONS[request["section"]](bench)
        return _prepare(rows) if bench.preparing else _measure(rows, request["result"])
    except dlblas.Error as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
