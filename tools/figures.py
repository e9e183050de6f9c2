#!/usr/bin/env python3
"""Makes the tables of README.md, docs/figures.md, docs/all_operators.md from benchmarks/results.

A table is between `<!-- figures:begin NAME -->` and `<!-- figures:end NAME -->`. It shows the
newest row of each figure: for GPUs of every card (README.md: of one), for CPUs of the one measured
last. It says "stale" if the sources behind one of its rows have changed since (README.md says only
for how many operators). The tables `operators` and `families` come from the operators' own files
(operator_table.py). `--check` writes nothing and exits 1 when a table is out of date. Needs the
package: run it with .venv/bin/python after a build.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import re
import statistics
import sys
from collections.abc import Callable
from typing import Any

import figures_gpu
import operator_table
from figures_gpu import markdown

ROOT = pathlib.Path(__file__).resolve().parent.parent
Row = dict[str, Any]
BRIEF = "gpu_top"  # the README's: its rows stand in docs/figures.md, too
FILES = ("README.md", "docs/figures.md", "docs/all_operators.md")
FROM_OPERATORS = {"operators": operator_table.make, "families": operator_table.families}
MARKED = re.compile(r"(<!-- figures:begin (\S+) -->\n)(.*?)(<!-- figures:end \2 -->)", re.DOTALL)


def newest(folder: pathlib.Path) -> list[Row]:
    """The newest row of each figure: one problem on one machine with one thread count."""
    found: dict[str, Row] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row["method"]["quick"]:
                continue
            columns = ("what", "op", "problem", "dtype", "threads", "cpu", "card")
            name = json.dumps([row.get(column) for column in columns])
            if name not in found or found[name]["when"] <= row["when"]:
                found[name] = row
    return list(found.values())


def _size(ms: float) -> str:
    return f"{ms * 1e3:.3g} µs" if ms < 1 else f"{ms:.3g} ms"


def _problem(row: Row) -> str:
    return "×".join(str(size) for size in row["problem"].values())


def _ratio(row: Row) -> str:
    return "missing" if row["ratio"] is None else f"{row['ratio']:.2f}"


def host_table(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        ours, what = row["ours"], row["what"]
        if "missing" in ours:
            lines.append([what, f"missing: {ours['missing']}", ""])
        elif what == "host":
            lines.append(
                [
                    f"warm `{row['op']}` call in the library, kernel stubbed",
                    f"{ours['min_us']:.2f} µs",
                    "≤ 0.3 µs",
                ]
            )
        elif what == "python":
            lines.append(
                [
                    f"`{ours['name']}` on NumPy, over the kernel",
                    f"{ours['over_kernel_us']:.2f} µs",
                    "≤ 1.0 µs",
                ]
            )
        elif what == "import":
            lines.append(
                [
                    f"`import dlblas` (median {ours['median_ms']:.0f} ms)",
                    f"{ours['min_ms']:.0f} ms",
                    "≤ 60 ms",
                ]
            )
        else:
            lines.append(["wheel", f"{ours['bytes'] / 2**20:.1f} MB", "≤ 10 MB"])
    return markdown(["what", "figure", "goal"], lines)


def norm_table(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        if "missing" in row["ours"]:
            lines.append(
                [row["op"], "", row["dtype"], str(row["threads"]), "", row["ours"]["missing"]]
            )
            continue
        rate = row["bytes"] / row["ours"]["min_ms"] / 1e6
        lines.append(
            [
                row["op"],
                _problem(row),
                row["dtype"],
                str(row["threads"]),
                f"{rate:.1f} GB/s",
                _ratio(row),
            ]
        )
    return markdown(["operator", "T×C", "dtype", "threads", "rate", "of a copy (goal 0.8)"], lines)


def rows_table(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        if "missing" in row["ours"]:
            continue
        ours = row["ours"]["min_ms"]
        peers = {peer["name"]: peer for peer in row["peers"]}
        beside = [peers.get(name, {"missing": "-"}) for name in ("torch", "inductor")]
        lines.append(
            [
                row["op"],
                _problem(row),
                row["dtype"],
                f"{_size(ours)} · `{row['ours']['name']}`",
                *(f"{p['min_ms'] / ours:.2f}×" if "min_ms" in p else p["missing"] for p in beside),
                f"{row['bytes'] / ours / 1e6:.1f} GB/s",
                _ratio(row),
            ]
        )
    head = ["operator", "sizes", "dtype", "ours", "torch (goal 3×)", "inductor (goal 1.2×)", "rate"]
    return markdown([*head, "of a copy (goal 0.8)"], lines)


def matmul_table(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        ours, peers = row["ours"], []
        for peer in row["peers"]:
            shown = peer.get("missing") or _size(peer["min_ms"])
            peers.append(f"{peer['name']} {peer.get('version', '')} {shown}".replace("  ", " "))
        goal = {"matmul own": "0.5", "matmul chosen": "0.98", "space": "2"}[row["what"]]
        name = {"matmul own": "ours", "matmul chosen": "chosen", "space": "best configuration"}
        lines.append(
            [
                name[row["what"]],
                f"{_problem(row)}, {row['threads']} threads",
                f"`{ours['name']}` {_size(ours['min_ms'])}",
                "; ".join(peers),
                f"{_ratio(row)} × {row['against']} (goal {goal})",
            ]
        )
    return markdown(["what", "M×K×N", "time", "peers", "speed"], lines)


def families_table(rows: list[Row]) -> str:
    """Products and attention on a CPU: the ratio of each rival's time to ours."""
    names = sorted({peer["name"] for row in rows for peer in row["peers"]}, reverse=True)
    lines = []
    for row in rows:
        ours, peers = row["ours"], {peer["name"]: peer for peer in row["peers"]}
        if "missing" in ours:
            continue
        beside = [peers.get(name, {}) for name in names]
        by = " + ".join(sorted({part.split(": ")[-1] for part in ours["name"].split(" + ")}))
        sizes = " ".join(f"{letter} {size}" for letter, size in row["problem"].items())
        lines.append(
            [
                row["op"],
                sizes,
                row["dtype"],
                f"{_size(ours['min_ms'])} · `{by}`",
                f"{row['flops'] / ours['min_ms'] / 1e6:.0f} GFLOP/s",
                *(
                    f"{p['min_ms'] / ours['min_ms']:.2f}×"
                    if "min_ms" in p
                    else p.get("missing", "–")
                    for p in beside
                ),
            ]
        )
    head = ["call", "sizes", "dtype", "ours", "rate", *(f"{n}'s time ÷ ours" for n in names)]
    return markdown(head, lines)


def machine_table(rows: list[Row]) -> str:
    lines = [
        [
            row["cpu"],
            row["isa"],
            str(row["threads"]),
            f"{row['ours']['copy_bytes_per_s'] / 1e9:.1f} GB/s",
            f"{row['ours']['peak_flops'] / 1e9:.0f} GFLOP/s",
        ]
        for row in rows
    ]
    return markdown(["CPU", "level", "threads", "copy (read + written)", "f32 peak"], lines)


# Goals for a kernel's first compilation in ms, by family; all others are row kernels.
COLD_GOALS = {"gemm": 600, "mlp": 600, "w4": 600, "attention": 1500}


def cold_table(rows: list[Row]) -> str:
    """One row per family, from the time of each operator's slowest problem."""
    families: dict[str, list[Row]] = {}
    for row in rows:
        if "missing" not in row["ours"]:
            families.setdefault(row["family"], []).append(row)
    lines = []
    for family, own in sorted(families.items()):
        times = {row["op"]: row["ours"]["min_ms"] for row in own}
        slowest, goal = max(times, key=lambda op: times[op]), COLD_GOALS.get(family, 170)
        over = sorted(op for op, ms in times.items() if ms > goal and op != slowest)
        lines.append(
            [
                family,
                str(len(own)),
                f"{statistics.median(times.values()):.0f} ms",
                f"`{slowest}` {times[slowest]:.0f} ms",
                f"{goal} ms",
                ", ".join(f"`{op}` {times[op]:.0f}" for op in over) or "–",
            ]
        )
    head = ["family", "operators", "median", "slowest", "goal at most", "others above it"]
    return markdown(head, lines)


TABLES: dict[str, tuple[tuple[str, ...], Callable[[list[Row]], str]]] = {
    "host": (("host", "python", "import", "wheel"), host_table),
    "norm": (("norm",), norm_table),
    "rows": (("rows",), rows_table),
    "matmul": (("matmul own", "matmul chosen", "space"), matmul_table),
    "cpu_products": (("cpu_products",), families_table),
    "cpu_attention": (("cpu_attention",), families_table),
    "compile": (("compile",), cold_table),
    "machine": (("machine",), machine_table),
    **figures_gpu.TABLES,
}


def _order(row: Row) -> list[Any]:
    kinds_in_order = [what for kinds, _ in TABLES.values() for what in kinds]
    sizes = [str(size).zfill(12) for size in row["problem"].values()]
    return [
        _machine(row),
        kinds_in_order.index(row["what"]),
        row["op"] or "",
        row["dtype"] or "",
        row.get("threads", 0),
        [] if row["what"].startswith("gpu_") else sizes,  # those keep their order in the file
    ]


def in_order(rows: list[Row]) -> list[Row]:
    """The rows in the order of a table."""
    return sorted(rows, key=_order)


def _machine(row: Row) -> str:
    return f"{row['card']}, driver {row['driver']}" if "card" in row else str(row["cpu"])


def _machines(rows: list[Row]) -> list[str]:
    """The machines that a table shows: every card, the one with most rows first; for CPUs only the
    one measured last (the rows of others stay in the results)."""
    if "card" in rows[0]:
        count = collections.Counter(row["card"] for row in rows)
        return sorted(count, key=lambda card: (-count[card], card))
    return [str(max(rows, key=lambda row: str(row["when"]))["cpu"])]


def make_table(
    name: str, rows: list[Row], current: Callable[[Row], str], brief: bool = False
) -> str:
    """The Markdown of one table per machine, each with a line on where its figures come from.
    ``brief``: only the first machine, and how many operators are stale instead of which."""
    chosen = in_order([row for row in rows if row["what"] in TABLES[name][0]])
    if not chosen:
        return f"No results for {name} yet: run `dlblas bench`.\n"
    machines = _machines(chosen)
    tables = []
    for machine in machines[: 1 if brief else None]:
        own = [row for row in chosen if row.get("card", row.get("cpu")) == machine]
        tables.append(_of_machine(name, own, current, brief))
    return "\n".join(tables)


def _of_machine(name: str, chosen: list[Row], current: Callable[[Row], str], brief: bool) -> str:
    days = sorted({row["when"][:10] for row in chosen})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    statistic = "medians" if name.startswith("gpu_") else "minima"
    last = _machine(max(chosen, key=lambda row: str(row["when"])))
    text = f"{TABLES[name][1](chosen)}\n{last}, {when}; {statistic} of interleaved rounds.\n"
    moved = [row for row in chosen if row["source"] not in ("", current(row))]
    moved = [row for row in moved if "missing" not in row["ours"]]
    by_op = name in ("norm", "rows", "matmul", "compile") or name.startswith(("gpu_", "cpu_"))
    stale = sorted({(by_op and row["op"]) or row["what"] for row in moved})
    if stale and brief:
        count = "1 operator" if len(stale) == 1 else f"{len(stale)} operators"
        text = f"{text[:-1]} The sources of {count} have changed [since](docs/figures.md).\n"
    elif stale:
        text += f"\n**Stale**: the sources behind {', '.join(stale)} have changed since.\n"
    return text


def current_source(root: pathlib.Path) -> Callable[[Row], str]:
    """A function from a row to the hash that it would carry if measured now."""
    import dlblas
    from dlblas.bench import source

    info = dlblas.info()

    return lambda row: source.made_of(row, info, str(root))


def render(text: str, rows: list[Row], current: Callable[[Row], str]) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[2] in FROM_OPERATORS:
            import dlblas

            return f"{match[1]}{FROM_OPERATORS[match[2]](dlblas.info())}{match[4]}"
        if match[2] not in TABLES:
            raise SystemExit(f"figures: no table {match[2]}; expected one of {', '.join(TABLES)}")
        return f"{match[1]}{make_table(match[2], rows, current, match[2] == BRIEF)}{match[4]}"

    return MARKED.sub(replace, text)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument(
        "--file", action="append", help=f"file with markers (default {', '.join(FILES)})"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; 1 when out of date")
    args = parser.parse_args()
    root = args.root.resolve()
    staged = root / "build" / "python"
    if staged.is_dir():
        sys.path.insert(0, str(staged))
    rows, current = newest(root / "benchmarks" / "results"), current_source(root)
    stale = 0
    for name in args.file or FILES:
        path = root / name
        before = path.read_text(encoding="utf-8")
        after = render(before, rows, current)
        if args.check:
            if before != after:
                print(f"figures: {name} is out of date; run tools/figures.py")
                stale = 1
            continue
        temporary = path.with_suffix(".tmp")
        temporary.write_text(after, encoding="utf-8")
        os.replace(temporary, path)
    return stale


if __name__ == "__main__":
    sys.exit(main())
