"""One pass of the demo, in its own process: every key is requested, called, checked and timed.

``python -m dlblas._demo_pass`` reads a JSON request, which names the result file, from stdin and
prints a text report to stdout. DLBLAS_CACHE names the demo's own store from the start. Read next:
demo.py.
"""

from __future__ import annotations

import json
import sys
import textwrap
import time

import dlblas

from ._cli_show import describe_machine
from ._demo_host import Row, Side
from ._progress import Progress
from ._reports import best_of
from ._streams import complain, harmless_streams
from ._text import harmless, microseconds

_LONG, _LONG_BUDGET = 1 << 32, 4  # a key of so many operations gets so many times the budget


def _competition(report: Row) -> list[str]:
    """Lines that list the implementations that took part, with their configurations, and those that
    were refused, with the reason."""
    lines, refusals = [], dict[str, list[str]]()
    for c in report["candidates"]:
        if c["implementation"] in report["oracles"]:
            continue
        if c["takes_part"]:
            best = best_of(c) if c["best_ms"] is not None else "not reached"
            tried = f"{c['measured']}/{c['configs']}" + (
                f", {c['failed']} failed" if c["failed"] else ""
            )
            lines.append(f"{c['implementation']} {best} ({tried})")
        else:
            refusals.setdefault(harmless(c["reason"]), []).append(c["implementation"])
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


def _speed(times: Row, call: dlblas.Operation, floor_ms: float, rival: str) -> Row:
    """``kernel_ms`` comes from the search: it excludes the call from Python, and its inputs come
    from memory if they do not fit a core's cache, as when the ceilings are measured."""
    ours, name = times["dlblas"]["min_ms"], rival.lower()
    chosen = next(c for c in call.explain().as_dict()["candidates"] if c["chosen"])
    kernel = chosen.get("measured_ms", ours)
    return {
        "times": times,
        "kernel_ms": kernel,
        "of_ceiling": floor_ms / kernel,
        "rival": rival,
        "vs_rival": times[name]["min_ms"] / ours if name in times else None,
    }


def _side(request: Row) -> Side:
    if request["device"] == "cpu":
        return Side(request)
    from ._demo_gpu import GpuSide

    return GpuSide(request)


class Pass:
    """Pass 1 (``number``) searches in an empty store; pass 2 must find everything in it."""

    def __init__(self, request: Row) -> None:
        self.request, self.number = request, request["pass"]
        self.side = _side(request)
        self.ceilings = self.side.ceilings

    def key(self, op: str, case: Row, info: Row) -> Row:
        """Requests one operator and shape, calls it, checks the result and times it."""
        row = next(r for r in info["operators"] if r["name"] == op)
        tensors, scalars = self.side.arrays(row, case), dict(case.get("args", {}))
        args = tuple(tensors.values())
        label = f"{op} {' '.join(f'{k}={v}' for k, v in case['dims'].items())}"
        moved, flops = self.side.work(row, case["dims"], tensors)
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
        rows = self.side.rows_to_check(args[0].shape[0], flops)
        verdict = dlblas.verify(op, args, result, scalars, rows=rows)
        times = self.side.times(op, call, tensors, result, scalars)
        return {
            **{"op": op, "case": case["name"], "dims": case["dims"], "dtype": self.side.dtype},
            **{"label": label, "bytes": moved, "flops": flops, "ceiling": ceiling},
            **_choice(call, row),
            **_speed(times, call, floor_ms, self.side.rival),
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
            print(textwrap.indent(textwrap.fill(row["search"], 88), " " * 12))
        ours = microseconds(row["times"]["dlblas"]["min_ms"])
        speed = f"{100 * row['of_ceiling']:.0f} % of {row['ceiling']}"
        checked = "" if row["rows_checked"] == "all" else f" on {row['rows_checked']} rows"
        verdict = f"error {row['error_over_bound']:.2g} of the bound{checked}"
        verdict += "" if row["ok"] else "  WRONG"
        if self.number == 1:
            rival = row["rival"]
            print(
                f"  speed     {ours} {self.side.timed}, {row['vs_rival']:.2f}x {rival} "
                f"({microseconds(row['times'][rival.lower()]['min_ms'])}); "
                f"kernel {microseconds(row['kernel_ms'])}, {speed}"
            )
            print(f"  result    {verdict}\n", flush=True)
            return
        c = row["counters"]
        print(
            f"  {row['label']:27} source={row['source']} measured={c['measured']}"
            f" compiled={c['compiled']}  {microseconds(row['asked_s'] * 1e3):>8} to ask"
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
            where = self.request["device"]
            print(
                f"{'device':10} {where} copies {copy / 1e9:.1f} GB/s (read and written), "
                f"multiplies {peak / 1e9:.0f} GFLOP/s {self.side.dtype}\n",
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
            "device": self.request["device"],
            "ceilings": {"copy": self.ceilings.copy, "peak": self.ceilings.peak},
            "keys": rows,
            "counters": dlblas.counters(),
        }


def main() -> int:
    request = json.load(sys.stdin)
    try:
        result = Pass(request).run()
    except dlblas.Error as error:
        complain(str(error))
        return 2
    except KeyboardInterrupt:  # the driver gets it too, and says so
        return 130
    try:
        with open(request["result"], "w", encoding="utf-8") as file:
            json.dump(result, file)
    except OSError as error:
        complain(f"{harmless(request['result'])}: {error.strerror}")
        return 2
    return 0


if __name__ == "__main__":
    with harmless_streams():
        code = main()
    sys.exit(code)
