"""What the benchmarks measure, in a process with the thread count and the empty store that
``bench.run`` chose for it.

``python -m dlblas.bench.children`` with a JSON request on stdin: section, quick, seconds, file for
the rows. A row here has what, problem, ours, peers and ratio; the driver adds where and when.
Ratios are the peer's time over ours, both minima of interleaved rounds. Read next: timing.py.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import statistics
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import dlblas
from dlblas import _functions, _native, _specs
from dlblas.bench import cold, cpu_families, cpu_rows
from dlblas.bench.copying import Copy, Helper
from dlblas.bench.life import end_with_parent
from dlblas.bench.timing import ROUNDS, Samples, interleaved
from dlblas.harness import abi
from dlblas.harness.call import numpy_dtype

Row = dict[str, Any]

_C = 4096
_TOKENS = (512, 2048, 8192, 16384)
_MATMUL = {"M": 512, "K": 4096, "N": 4096}


def _missing(name: str, why: str) -> Row:
    return {"name": name, "missing": why}


def _peer(name: str, version: str, samples: Samples, **more: Any) -> Row:
    return {"name": name, "version": version, **samples.as_dict(), **more}


def _rotating(functions: list[Callable[[], Any]]) -> Callable[[], Any]:
    """Each run takes the next of several sets of arrays, so none finds its data in the caches."""
    turns = itertools.cycle(functions)
    return lambda: next(turns)()


def _smallest(row: Row) -> dict[str, int]:
    """The sizes of the operator's smallest case that has elements."""
    cases = [
        {letter: int(np.prod(size)) for letter, size in case["dims"].items()}
        for case in _specs.cases(row, "test")
    ]
    return min((dims for dims in cases if all(dims.values())), key=lambda d: math.prod(d.values()))


class Bench:
    def __init__(self, request: Row) -> None:
        self.quick: bool = request["quick"]
        self.only: list[str] = request["only"]
        self.seconds: float = request["seconds"]
        self.rounds = 5 if self.quick else ROUNDS
        self.random = np.random.default_rng(7)
        self.info = dlblas.info()
        self.threads: int = self.info["devices"][0]["threads"]
        self.helpers = [Helper() for _ in range(self.threads - 1)]

    def normal(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return self.random.standard_normal(shape, dtype=np.float32).astype(dtype)

    # --- what a call costs the host ---------------------------------------------------------------

    def host(self) -> list[Row]:
        """All five stages of a warm call, with the kernel and the allocator stubbed."""
        tiny = {"matmul": {"M": 1, "K": 64, "N": 64}}
        rows = []
        for op in [row["name"] for row in self.info["operators"]]:
            row, form, _ = _specs.operator_row(op, self.info)
            dims = tiny.get(op) or {letter["name"]: 4 for letter in row["letters"]}
            try:
                rows.append(self._host(row, form, dims))
            except dlblas.Error:  # sizes that it refuses
                rows.append(self._host(row, form, _smallest(row)))
        return rows

    def _host(self, row: Row, form: str, dims: dict[str, int]) -> Row:
        op, taken = row["name"], row["tensors"][0]["dtypes"]
        dtype = "f32" if "f32" in taken else taken[0]
        specs = _specs.tensor_specs(row, dims, {"": dtype}, {})
        args = tuple(np.empty(spec.shape, numpy_dtype(spec.dtype)) for spec in specs.values())
        letters = [dims[letter["name"]] for letter in row["letters"]]
        for name, array in zip(specs, args, strict=True):
            abi.make_input(op, name, letters, 1, array)
        behind = _specs.after_a_gap(row, specs)
        arrays = dict(zip(specs, args, strict=True))
        named: dict[str, Any] = {n: a for n, a in arrays.items() if n in behind}
        named |= _specs.size_arguments(row, dims)
        args = tuple(a for n, a in arrays.items() if n not in behind)
        rounds = 1 if self.quick else self.rounds  # of a quarter of a second each
        ns = [_functions.native["bench_host"](form, args, named) for _ in range(rounds)]
        return {
            "what": "host",
            "op": op,
            "problem": dims,
            "dtype": dtype,
            "ours": {
                "min_us": min(ns) / 1e3,
                "median_us": statistics.median(ns) / 1e3,
                "rounds": len(ns),
            },
            "peers": [],
            "ratio": None,
        }

    def python(self) -> list[Row]:
        """``dlblas.rms_norm(x, w, out=y)`` on a tiny array, minus the kernel's own time."""
        x, w = self.normal((1, 64), np.float32), self.normal((64,), np.float32)
        y = np.empty_like(x)
        report = dlblas.get_op("rms_norm", (x, w), seconds=self.seconds).report
        kernel_ms = min(
            min(e["samples_ms"])
            for e in report["evaluated"]
            if (e["implementation"], e["config"]) == tuple(report["winner"].values())
        )
        function = dlblas.rms_norm
        times = interleaved(
            {
                "ours": functools.partial(function, x, w, out=y),
                "numpy": functools.partial(np.multiply, x, w, out=y),
            },
            20 * self.rounds,
        )
        call = times["ours"]
        ours = {
            "name": "dlblas.rms_norm(x, w, out=y)",
            **call.as_dict(),
            "kernel_ms": kernel_ms,
            "over_kernel_us": (call.min_ms - kernel_ms) * 1e3,
        }
        return [
            {
                "what": "python",
                "op": "rms_norm",
                "problem": {"T": 1, "C": 64},
                "dtype": "f32",
                "ours": ours,
                "ratio": times["numpy"].min_ms / call.min_ms,
                "against": "numpy.multiply(x, w, out=y)",
                "peers": [_peer("numpy.multiply(x, w, out=y)", np.__version__, times["numpy"])],
            }
        ]

    def machine(self) -> list[Row]:
        size = (1 << 20) if self.quick else (256 << 20)
        copy, peak = _native.machine_ceilings(self.threads, size)
        if not self.quick:  # no row: the library keeps it for its estimates
            for device in self.info["devices"][1:]:
                _native.machine_ceilings(0, size, int(device["device"].removeprefix("cuda:")))
        ours = {"copy_bytes_per_s": copy, "peak_flops": peak}
        return [
            {
                "what": "machine",
                "op": None,
                "problem": {"bytes": size},
                "dtype": "f32",
                "ours": ours,
                "peers": [],
                "ratio": None,
            }
        ]

    # --- norms against a copy of the same bytes ---------------------------------------------------

    def rms_norm(self) -> list[Row]:
        return self._norms("rms_norm", 1)

    def add_rms_norm(self) -> list[Row]:
        return self._norms("add_rms_norm", 2)

    def _norms(self, op: str, streams: int) -> list[Row]:
        rows: list[Row] = []
        for name in ("f32", "bf16"):
            dtype: Any = np.float32
            if name == "bf16":
                try:
                    import ml_dtypes
                except ImportError:
                    rows.append(
                        {
                            "what": "norm",
                            "op": op,
                            "problem": {},
                            "dtype": name,
                            "peers": [],
                            "ours": _missing("dlblas", "ml_dtypes is not installed"),
                            "ratio": None,
                        }
                    )
                    continue
                dtype = ml_dtypes.bfloat16
            for tokens in (4,) if self.quick else _TOKENS:
                rows.append(self._norm(op, streams, tokens, 64 if self.quick else _C, name, dtype))
        return rows

    def _norm(self, op: str, streams: int, t: int, c: int, name: str, dtype: Any) -> Row:
        weight, copied = self.normal((c,), dtype), streams * t * c * np.dtype(dtype).itemsize
        l3_bytes = self.info["devices"][0]["l3_bytes"] or 32 << 20
        num_sets = min(16, 1 + 3 * l3_bytes // (2 * copied))
        first = [self.normal((t, c), dtype) for _ in range(streams)]
        sets = []
        for _ in range(num_sets):  # copies: every page exists before anything is timed
            sets.append(([a.copy() for a in first], [np.zeros_like(a) for a in first]))
        call = dlblas.get_op(op, (first[0], weight, *first[1:]), seconds=self.seconds)
        ours: list[Callable[[], Any]] = []
        plain: list[Callable[[], Any]] = []
        streamed: list[Callable[[], Any]] = []
        for inputs, outputs in sets:
            out = outputs[0] if streams == 1 else tuple(outputs)
            ours.append(functools.partial(call, inputs[0], weight, *inputs[1:], out=out))
            pairs = list(zip(outputs, inputs, strict=True))
            for copies, stream in ((plain, False), (streamed, True)):
                copy = Copy(pairs, self.threads, stream)
                copies.append(functools.partial(copy.run, self.helpers))
        times = interleaved(
            {
                "ours": _rotating(ours),
                "plain copy": _rotating(plain),
                "streamed copy": _rotating(streamed),
            },
            self.rounds,
        )
        best = min(("plain copy", "streamed copy"), key=lambda kind: times[kind].min_ms)
        plan = call.explain().as_dict()
        return {
            "what": "norm",
            "op": op,
            "problem": {"T": t, "C": c},
            "dtype": name,
            "ours": {
                "name": plan["implementation"],
                "config": plan["config"],
                **times["ours"].as_dict(),
            },
            "peers": [
                _peer(kind, "memmove", times[kind]) for kind in ("plain copy", "streamed copy")
            ],
            "against": best,
            "bytes": 2 * copied,
            "sets": num_sets,
            "ratio": times[best].min_ms / times["ours"].min_ms,
        }

    def rows(self) -> list[Row]:
        return list(cpu_rows.rows(self))

    def products(self) -> list[Row]:
        return list(cpu_families.products(self))

    def attention(self) -> list[Row]:
        return list(cpu_families.attention(self))

    # --- matrix product ---------------------------------------------------------------------------

    def matmul(self) -> list[Row]:
        dims = {"M": 16, "K": 64, "N": 64} if self.quick else _MATMUL
        a = self.normal((dims["M"], dims["K"]), np.float32)
        b = self.normal((dims["K"], dims["N"]), np.float32)
        out = np.empty((dims["M"], dims["N"]), np.float32)
        row = next(op for op in self.info["operators"] if op["name"] == "matmul")
        own = [i["name"] for i in row["implementations"] if i["knobs"] and not i["oracle"]]
        # Our own space gets most of the budget of a full search.
        report = dlblas.tune("matmul", (a, b), implementations=own, seconds=self.seconds)
        best = report["winner"]
        chosen = dict(dlblas.get_op("matmul", (a, b), seconds=self.seconds).explain().as_dict())
        rows = self._rivals(dims, a, b, out, best, chosen)
        return [*rows, self._spread(dims, a, b, out, report)]

    def _pinned(self, a: Any, b: Any, out: Any, *pin: str | None) -> Callable[[], None]:
        def prepare() -> None:  # the first call after a pin selects and prepares
            dlblas.pin("matmul", pin[0], pin[1] if len(pin) > 1 else None)
            dlblas.matmul(a, b, out=out)

        return prepare

    def _rivals(self, dims: Row, a: Any, b: Any, out: Any, best: Row, chosen: Row) -> list[Row]:
        library = next(row for row in self.info["libraries"] if row["name"] == "onednn")
        run = functools.partial(dlblas.matmul, a, b, out=out)
        contestants: dict[str, Callable[[], Any]] = {
            "own": run,
            "chosen": run,
            "numpy": lambda: np.matmul(a, b, out=out),
        }
        prepare = {
            "own": self._pinned(a, b, out, best["implementation"], best["config"]),
            "chosen": self._pinned(a, b, out, None),
        }
        if library["found"]:
            contestants["onednn"], prepare["onednn"] = run, self._pinned(a, b, out, "onednn")
        times = interleaved(contestants, self.rounds, prepare=prepare)
        dlblas.pin("matmul", None)
        peers = [
            _peer("onednn", library["version"], times["onednn"])
            if library["found"]
            else _missing("onednn", library["why_not"]),
            _peer("numpy", np.__version__, times["numpy"]),
        ]
        rows = []
        for what, plan in (("own", best), ("chosen", chosen)):
            ours = {
                "name": plan["implementation"],
                "config": plan["config"],
                **times[what].as_dict(),
            }
            ratio = times["onednn"].min_ms / times[what].min_ms if library["found"] else None
            rows.append(
                {
                    "what": f"matmul {what}",
                    "op": "matmul",
                    "problem": dims,
                    "dtype": "f32",
                    "ours": ours,
                    "peers": peers,
                    "against": "onednn",
                    "ratio": ratio,
                    "flops": 2 * dims["M"] * dims["K"] * dims["N"],
                }
            )
        return rows

    def _spread(self, dims: Row, a: Any, b: Any, out: Any, report: Row) -> Row:
        """The fastest and slowest configurations that the search measured in our largest space."""
        took_part = [c for c in report["candidates"] if c["takes_part"]]
        name = max(took_part, key=lambda c: (c["configs"], -c["best_ms"] if c["best_ms"] else 0))[
            "implementation"
        ]
        seen = sorted(
            (e["ms"], e["config"])
            for e in report["evaluated"]
            if e["implementation"] == name and "ms" in e
        )
        ends = {"best": seen[0][1], "worst": seen[-1][1]}
        run = functools.partial(dlblas.matmul, a, b, out=out)
        times = interleaved(
            dict.fromkeys(ends, run),
            self.rounds,
            prepare={e: self._pinned(a, b, out, name, ends[e]) for e in ends},
        )
        dlblas.pin("matmul", None)
        configs = next(c["configs"] for c in took_part if c["implementation"] == name)
        return {
            "what": "space",
            "op": "matmul",
            "problem": dims,
            "dtype": "f32",
            "ours": {
                "name": name,
                "config": ends["best"],
                **times["best"].as_dict(),
                "valid": configs,
                "measured": len(seen),
            },
            "peers": [_peer("worst configuration", ends["worst"], times["worst"])],
            "against": "worst configuration",
            "ratio": times["worst"].min_ms / times["best"].min_ms,
        }


SECTIONS: dict[str, Callable[[Bench], list[Row]]] = {
    "host": Bench.host,
    "python": Bench.python,
    "machine": Bench.machine,
    "rms_norm": Bench.rms_norm,
    "add_rms_norm": Bench.add_rms_norm,
    "rows": Bench.rows,
    "matmul": Bench.matmul,
    "products": Bench.products,
    "attention": Bench.attention,
    "compile": lambda bench: cold.operators(bench.quick, bench.only),
}


def main() -> int:
    request = json.load(sys.stdin)
    end_with_parent(request["parent"])
    try:
        rows = SECTIONS[request["section"]](Bench(request))
    except dlblas.Error as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    with open(request["result"], "w", encoding="utf-8") as file:
        json.dump(rows, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
