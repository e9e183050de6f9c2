"""One pass of the demo, in a process of its own: every key is asked for, called, checked, timed.

``python -m dlblas._demo_pass`` with a JSON request on stdin and the result's file in it; what
people read goes to stdout. DLBLAS_CACHE names the demo's own store from the start. Read next:
demo.py.
"""

from __future__ import annotations

import json
import math
import sys
import textwrap
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import dlblas

from . import _native, _specs
from ._cli_show import describe_machine
from ._progress import Progress
from ._text import milliseconds
from .bench.timing import interleaved

Row = dict[str, Any]

_WHOLE = 1 << 30  # multiply-adds of the oracle: above, chosen rows are compared
_ROWS = 64
_LONG, _LONG_BUDGET = 1 << 32, 4  # a key of so many operations gets so many times the budget


# --- the same mathematics in plain NumPy: what one would write without the library ---------------


def _matmul(a: Any, b: Any) -> Any:
    return a @ b


def _rms_norm(x: Any, weight: Any, eps: float = 1e-6) -> Any:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(eps)) * weight


def _add_rms_norm(x: Any, weight: Any, residual: Any, eps: float = 1e-6) -> Any:
    h = x + residual
    return _rms_norm(h, weight, eps), h


NUMPY: dict[str, Callable[..., Any]] = {
    "matmul": _matmul,
    "rms_norm": _rms_norm,
    "add_rms_norm": _add_rms_norm,
}


def _work(row: Row, dims: Row, tensors: dict[str, Any]) -> tuple[int, int]:
    """Bytes that a run must move, and the operations of a matrix product (f32 throughout)."""
    results = sum(math.prod(_specs.shape_of(r["dims"], dims)) for r in row["results"])
    moved = sum(a.nbytes for a in tensors.values()) + 4 * results
    return moved, 2 * math.prod(dims.values()) if row["name"] == "matmul" else 0


class _Ceilings:
    """This machine's copy rate for a working set, and its f32 peak: measured once a size."""

    def __init__(self, known: Row) -> None:
        self.copy: dict[str, float] = dict(known.get("copy", {}))  # bytes → bytes a second
        self.peak: float = known.get("peak", 0.0)  # the best of all: neighbours lower it

    def at(self, num_bytes: int) -> tuple[float, float]:
        half = max(4096, num_bytes // 2)  # a copy of half the bytes moves them all
        if str(half) not in self.copy:
            self.copy[str(half)], peak = _native.machine_ceilings(0, half)
            self.peak = max(self.peak, peak)
        return self.copy[str(half)], self.peak

    def rated(self, moved: int, flops: int) -> tuple[str, float]:
        """The ceiling that binds, and the milliseconds it allows."""
        copy, peak = self.at(moved)
        by_copy, by_peak = moved / copy * 1e3, flops / peak * 1e3
        return ("f32 peak", by_peak) if by_peak > by_copy else ("copy rate", by_copy)


def _rows_to_check(rows: int, flops: int) -> list[int] | None:
    """None: all. Else evenly spread rows with the first and the last."""
    if flops < 2 * _WHOLE:
        return None
    return sorted({round(i * (rows - 1) / (_ROWS + 1)) for i in range(_ROWS + 2)})


def _competition(report: Row) -> list[str]:
    """Who took part with how many configurations, and who was refused and why."""
    lines, refusals = [], dict[str, list[str]]()
    for c in report["candidates"]:
        if c["implementation"] in report["oracles"]:
            continue
        if c["takes_part"]:
            best = milliseconds(c["best_ms"]) if c["best_ms"] is not None else "not reached"
            tried = f"{c['measured']}/{c['configs']}" + (
                f", {c['failed']} failed" if c["failed"] else ""
            )
            lines.append(f"{c['implementation']} {best} ({tried})")
        else:
            refusals.setdefault(c["reason"], []).append(c["implementation"])
    shown = [("competed", ", ".join(lines))]
    shown += [("refused", f"{', '.join(names)}: {why}") for why, names in refusals.items()]
    return [
        textwrap.fill(f"  {word:9} {text}", 100, subsequent_indent=" " * 12) for word, text in shown
    ]


def _choice(call: dlblas.Operation, row: Row) -> Row:
    """What serves the key from now on, and how that was decided."""
    report, plan = call.report, call.explain().as_dict()
    return {
        "source": report["source"],
        "implementation": plan["implementation"],
        "config": plan["config"],
        "why": plan["why"],
        "search": report["why"],
        "candidates": report["candidates"],
        "oracles": [i["name"] for i in row["implementations"] if i["oracle"]],
        "strategy": report["strategy"],
        "planned": sum(c["configs"] for c in report["candidates"]),
        "failures": report["failures"],
        "budget_s": report["budget_s"],
        "search_s": report["elapsed_s"],
    }


def _speed(times: Row, call: dlblas.Operation, floor_ms: float) -> Row:
    """``kernel_ms`` is the search's: without the call from Python, and with inputs from memory
    where they do not fit a core's cache, as the ceilings are measured."""
    ours = times["dlblas"]["min_ms"]
    chosen = next(c for c in call.explain().as_dict()["candidates"] if c["chosen"])
    kernel = chosen.get("measured_ms", ours)
    return {
        "times": times,
        "kernel_ms": kernel,
        "of_ceiling": floor_ms / kernel,
        "vs_numpy": times["numpy"]["min_ms"] / ours if "numpy" in times else None,
    }


class Pass:
    """``number`` 1 searches in an empty store; 2 must find everything in it."""

    def __init__(self, request: Row) -> None:
        self.request, self.number = request, request["pass"]
        self.ceilings = _Ceilings(request["ceilings"])
        self.random = np.random.default_rng(7)

    def _arrays(self, row: Row, case: Row) -> dict[str, Any]:
        specs = _specs.tensor_specs(row, case["dims"], {"": "f32"}, {})
        return {
            name: self.random.standard_normal(spec.shape, dtype=np.float32)
            for name, spec in specs.items()
        }

    def _time(self, op: str, call: Any, tensors: Row, outputs: Any, scalars: Row) -> Row:
        positional, out = tuple(tensors.values()), outputs if len(outputs) > 1 else outputs[0]
        formula = NUMPY[op]
        limit, settle_ms = self.request["timing_s"], 0.0
        if op == "matmul":  # NumPy's has a pool of threads
            settle_ms = self.request["settle_ms"]
        contestants = {
            "dlblas": lambda: call(*positional, out=out),
            "numpy": lambda: formula(*positional, **scalars),
        }
        if self.number == 2:  # the rival is known from the first pass
            del contestants["numpy"]
        return {
            name: s.as_dict()
            for name, s in interleaved(contestants, limit_s=limit, settle_ms=settle_ms).items()
        }

    def key(self, op: str, case: Row, info: Row) -> Row:
        """Asks for one operator and shape, calls what comes, checks it and times it."""
        row = next(r for r in info["operators"] if r["name"] == op)
        tensors, scalars = self._arrays(row, case), dict(case.get("args", {}))
        args = tuple(tensors.values())
        label = f"{op} {' '.join(f'{k}={v}' for k, v in case['dims'].items())}"
        moved, flops = _work(row, case["dims"], tensors)
        ceiling, floor_ms = self.ceilings.rated(moved, flops)
        before, begin = dlblas.counters(), time.monotonic()
        call = dlblas.get_op(
            op,
            args,
            kwargs=scalars,
            seconds=self.request["seconds"] * (_LONG_BUDGET if flops > _LONG else 1),
            progress=Progress(
                f"  {label}",
                sys.stdout,
                True,
                lambda ms: f"{100 * floor_ms / ms:.0f} % of {ceiling}",
            ),
        )
        asked_s, after = time.monotonic() - begin, dlblas.counters()
        result = call(*args)
        rows = _rows_to_check(args[0].shape[0], flops)
        verdict = dlblas.verify(op, args, result, scalars, rows=rows)
        times = self._time(
            op, call, tensors, result if isinstance(result, tuple) else (result,), scalars
        )
        return {
            **{"op": op, "case": case["name"], "dims": case["dims"], "dtype": "f32"},
            **{"label": label, "bytes": moved, "flops": flops, "ceiling": ceiling},
            **_choice(call, row),
            **_speed(times, call, floor_ms),
            "asked_s": asked_s,
            "counters": {name: after[name] - before[name] for name in after},
            "ok": verdict.ok,
            "error_over_bound": verdict.worst,
            "relative_error": verdict.relative,
            "mistrusted": verdict.mistrusted,
            "rows_checked": "all" if rows is None else len(rows),
        }

    def show(self, row: Row) -> None:
        if self.number == 1:
            print(row["label"])
            print("\n".join(_competition(row)))
            print(
                f"  search    {row['counters']['measured']} of {row['planned']} configurations in"
                f" {row['search_s']:.1f} of {row['budget_s']:.3g} s, {row['failures']} failed"
            )
            print(f"  winner    {row['implementation']} {row['config']}".rstrip())
            print(f"            {row['search']}")
        ours = milliseconds(row["times"]["dlblas"]["min_ms"])
        speed = f"{100 * row['of_ceiling']:.0f} % of {row['ceiling']}"
        checked = "" if row["rows_checked"] == "all" else f" on {row['rows_checked']} rows"
        verdict = f"error {row['error_over_bound']:.2g} of the bound{checked}"
        verdict += "" if row["ok"] else "  WRONG"
        if self.number == 1:
            print(
                f"  speed     {ours} a call from Python, {row['vs_numpy']:.2f}x NumPy "
                f"({milliseconds(row['times']['numpy']['min_ms'])}); "
                f"kernel {milliseconds(row['kernel_ms'])}, {speed}"
            )
            print(f"  result    {verdict}\n", flush=True)
            return
        c = row["counters"]
        print(
            f"  {row['label']:27} source={row['source']} measured={c['measured']}"
            f" compiled={c['compiled']}  {row['asked_s'] * 1e3:5.1f} ms to ask"
            f"  {row['implementation']:15} {ours:>8}  {verdict}",
            flush=True,
        )

    def run(self) -> Row:
        info = dlblas.info()
        machine: Row = {"devices": info["devices"], "libraries": info["libraries"]}
        if self.number == 1:
            copy, peak = self.ceilings.at(self.request["copy_bytes"])
            machine.update({"copy_bytes_per_s": copy, "peak_flops": peak})
            print(describe_machine(info))
            print(
                f"{'machine':10} copies {copy / 1e9:.1f} GB/s (read and written), "
                f"multiplies {peak / 1e9:.0f} GFLOP/s f32\n",
                flush=True,
            )
        rows = []
        for wanted in self.request["keys"]:
            rows.append(self.key(wanted["op"], wanted["case"], info))
            self.show(rows[-1])
        return {
            "machine": machine,
            "store": info["cache"]["path"],
            "version": info["version"],
            "ceilings": {"copy": self.ceilings.copy, "peak": self.ceilings.peak},
            "keys": rows,
            "counters": dlblas.counters(),
        }


def main() -> int:
    request = json.load(sys.stdin)
    try:
        result = Pass(request).run()
    except dlblas.Error as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:  # the driver gets it too, and says so
        return 130
    with open(request["result"], "w", encoding="utf-8") as file:
        json.dump(result, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
