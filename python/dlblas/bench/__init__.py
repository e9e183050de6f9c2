"""``dlblas bench``: the project's figures, one JSON line each, in benchmarks/results/.

In: sections and thread counts. Each (section, thread count) runs in a process of its own, with an
empty store. Out: rows as docs/cli.md describes them; tools/figures.py makes tables of them. Read
next: children.py, which measures.
"""

from __future__ import annotations

import datetime
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from typing import Any

from .. import _native, _specs
from . import source
from .copying import STREAM_BYTES

Row = dict[str, Any]

# Section → thread counts when none are asked for (0: the library's default).
SECTIONS: dict[str, tuple[int, ...]] = {
    "host": (1,),
    "python": (1,),
    "import": (1,),
    "machine": (1, 2),
    "rms_norm": (1, 2),
    "add_rms_norm": (1, 2),
    "matmul": (0,),
}
# Search budget a key. matmul's own space has thousands of points, and 30 of them a second.
_SECONDS = {"matmul": 60.0}
_DEFAULT_SECONDS, _QUICK_SECONDS = 3.0, 0.1


class BenchError(Exception):
    """A measuring process ended early; it has said why on stderr."""


def _environment(**more: str) -> dict[str, str]:
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, **more}


def _measure(section: str, threads: int, seconds: float, quick: bool) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="dlblas-bench-") as folder:
        result = os.path.join(folder, "rows.json")
        request = {"section": section, "seconds": seconds, "quick": quick, "result": result}
        env = _environment(DLBLAS_CACHE=os.path.join(folder, "store"))
        if section.endswith("norm"):  # which copies stream is then known; see copying.py
            env["GLIBC_TUNABLES"] = f"glibc.cpu.x86_non_temporal_threshold={STREAM_BYTES}"
        if threads:
            env["DLBLAS_NUM_THREADS"] = str(threads)
        command = [sys.executable, "-m", "dlblas.bench.children"]
        done = subprocess.run(command, input=json.dumps(request), text=True, env=env)
        if done.returncode != 0:
            raise BenchError(f"{section} ended with exit code {done.returncode}")
        with open(result, encoding="utf-8") as file:
            rows: list[Row] = json.load(file)
        return rows


def _import_times(module: str) -> float:
    """Milliseconds that a fresh process spends in ``import module``."""
    code = (
        f"import time; begin = time.perf_counter(); import {module}; "
        "print((time.perf_counter() - begin) * 1e3)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=_environment(), check=True)
    return float(done.stdout)


def _import_rows(quick: bool) -> list[Row]:
    rounds = 3 if quick else 30
    times: dict[str, list[float]] = {"dlblas": [], "numpy": []}
    for _ in range(rounds):
        for module, kept in times.items():
            kept.append(_import_times(module))

    def stats(ms: list[float]) -> Row:
        return {"min_ms": min(ms), "median_ms": statistics.median(ms), "rounds": len(ms)}

    ours = {"name": "import dlblas", **stats(times["dlblas"])}
    peer = {"name": "import numpy", "version": "", **stats(times["numpy"])}
    ratio = peer["min_ms"] / ours["min_ms"]
    return [
        {
            "what": "import",
            "op": None,
            "problem": {},
            "dtype": None,
            "ours": ours,
            "peers": [peer],
            "against": "import numpy",
            "ratio": ratio,
        }
    ]


def _wheel_row(root: str | None) -> Row:
    wheels = glob.glob(os.path.join(root or ".", "dist", "*.whl"))
    ours: Row = {"name": "wheel", "missing": "no wheel in dist/; run `make wheel`"}
    if wheels:
        newest = max(wheels, key=os.path.getmtime)
        ours = {"name": os.path.basename(newest), "bytes": os.path.getsize(newest)}
    return {
        "what": "wheel",
        "op": None,
        "problem": {},
        "dtype": None,
        "ours": ours,
        "peers": [],
        "ratio": None,
    }


def _complete(rows: list[Row], threads: int, quick: bool, root: str | None, info: Row) -> list[Row]:
    """Where, when and of which sources: the columns that all rows have."""
    device, (commit, dirty) = info["devices"][0], source.commit(root)
    done = []
    for row in rows:
        what = row["what"]
        if what in source.SOURCES:
            made_of = source.tree_hash(root, what)
        else:
            made_of = source.family_hash(info, row["op"])
        done.append(
            {
                "what": what,
                "when": datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds"),
                "version": info["version"],
                "commit": commit,
                "dirty": dirty,
                "source": made_of,
                "cpu": device["model"],
                "isa": device["isa"],
                "threads": threads or device["threads"],
                "method": {
                    "clock": "steady",
                    "statistic": "minimum of interleaved rounds",
                    "quick": quick,
                },
                **row,
            }
        )
    return done


def describe(row: Row) -> str:
    """A row as one line of a log."""
    dims = " ".join(f"{name}={value}" for name, value in row["problem"].items())
    head = " ".join(
        filter(
            None,
            [row["what"], row["op"] or "", dims, row["dtype"] or "", f"threads={row['threads']}"],
        )
    )
    ours = row["ours"]
    if "missing" in ours:
        return f"{head}: missing: {ours['missing']}"
    shown = [
        f"{key} {ours[key]:.4g}"
        for key in ("min_us", "over_kernel_us", "min_ms", "bytes", "copy_bytes_per_s", "peak_flops")
        if key in ours
    ]
    against = f", {row['ratio']:.3f} x {row['against']}" if row.get("ratio") is not None else ""
    missing = [f", {p['name']} missing: {p['missing']}" for p in row["peers"] if "missing" in p]
    return f"{head}: {', '.join(shown)}{against}{''.join(missing)}"


def _write(path: str, rows: Iterable[Row]) -> None:
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(f"written: {path}", flush=True)


def _default_path(section: str, quick: bool, root: str | None, info: Row) -> str:
    cpu = re.sub(r"[^a-z0-9]+", "-", info["devices"][0]["model"].lower()).strip("-")
    name = f"{section}-{cpu}.jsonl"
    if root is None:
        return name
    folder = ("build", "bench") if quick else ("benchmarks", "results")
    return os.path.join(root, *folder, name)


def _section_rows(
    section: str, threads: int, seconds: float | None, quick: bool, root: str | None
) -> list[Row]:
    if section == "import":
        return [*_import_rows(quick), _wheel_row(root)]
    budget = _QUICK_SECONDS if quick else _SECONDS.get(section, _DEFAULT_SECONDS)
    return _measure(section, threads, budget if seconds is None else seconds, quick)


def run(
    section: str, out: str | None, threads: list[int] | None, seconds: float | None, quick: bool
) -> int:
    """Measures and writes; 0 when every section came through, else 1."""
    if section != "all" and section not in SECTIONS:
        near = _specs.nearest(section, SECTIONS).removeprefix("; ") or "name one"
        raise _specs.refuse(
            "bench", "section", "is unknown", f"{', '.join(SECTIONS)} or all", section, near
        )
    root, info, everything, failed = source.tree_root(), _native.info(), list[Row](), False
    for name in SECTIONS if section == "all" else [section]:
        rows: list[Row] = []
        counts = (
            SECTIONS[name] if threads is None or name in ("host", "python", "import") else threads
        )
        for count in counts:
            try:
                found = _section_rows(name, count, seconds, quick, root)
            except BenchError as failure:
                sys.stderr.write(f"dlblas bench: {failure}\n")
                failed = True
                continue
            rows += _complete(found, count, quick, root, info)
            for row in rows[len(rows) - len(found) :]:
                print(describe(row), flush=True)
        everything += rows
        if out is None and rows:
            _write(_default_path(name, quick, root, info), rows)
    if out is not None:
        _write(out, everything)
    return 1 if failed else 0
