"""``dlblas bench``: the project's figures, one JSON line each, in benchmarks/results/.

In: sections and thread counts. Each (section, thread count) runs in its own process with an empty
store; GPU sections have no thread count and are requested by name, or all together as "gpu". Out:
rows as benchmarks/README.md describes them; tools/figures.py turns them into tables. ``prepare``
compiles the peers' kernels in advance and measures nothing. Read next: children.py and gpu.py,
which measure.
"""

from __future__ import annotations

import concurrent.futures
import datetime
import glob
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _native, _specs
from .._text import counted
from . import gpu_child, source
from .copying import STREAM_BYTES

Row = dict[str, Any]

# Section → default thread counts (0: the library's default).
SECTIONS: dict[str, tuple[int, ...]] = {
    "host": (1,),
    "python": (1,),
    "import": (1,),
    "machine": (1, 2),
    "rms_norm": (1, 2),
    "add_rms_norm": (1, 2),
    "rows": (1, 2),
    "matmul": (0,),
    "products": (0,),
    "attention": (0,),
    "compile": (0,),
}
# Search budget per key, in seconds. matmul's own space has thousands of points; 30 run per second.
_SECONDS = {"matmul": 60.0}
_DEFAULT_SECONDS, _QUICK_SECONDS = 3.0, 0.1
_OF_OPERATORS = ("rows", "compile", "gpu_rows")
_OF_FUNCTIONS = ("products", "attention", "gpu_products", "gpu_attention")  # as users call them
_OF_MANY = (*_OF_OPERATORS, *_OF_FUNCTIONS)
_STEPS = {"gpu_llama": ("prefill_1", "decode_1", "decode_16", "decode_64")}  # with sequences
# Search budget per key on a GPU, in seconds.
GPU_SECTIONS: dict[str, float] = {
    "gpu_compile": 0.5,
    "gpu_host": 0.5,
    "gpu_norm": 1.0,
    "gpu_norm_long": 4.0,
    "gpu_norm_backward": 3.0,
    "gpu_rows": 2.0,
    "gpu_chain": 0.8,
    "gpu_model": 8.0,  # for all keys of a model
    "gpu_llama": 8.0,  # of a step
    "gpu_matmul": 2.0,
    "gpu_products": 0.6,
    "gpu_attention": 0.6,
}
# Sections whose peers take long to compile, with the operators to prepare, one process for each.
_PREPARED: dict[str, tuple[str, ...]] = {
    "gpu_norm": ("rms_norm", "add_rms_norm"),
    "gpu_norm_long": ("rms_norm", "add_rms_norm"),
    "gpu_norm_backward": ("rms_norm_backward",),
}


class BenchError(Exception):
    """A measuring process ended early; the reason is on its stderr."""


def _environment(**more: str) -> dict[str, str]:
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, **more}


def _measure(section: str, threads: int, seconds: float, quick: bool, only: list[str]) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="dlblas-bench-") as folder:
        result = os.path.join(folder, "rows.json")
        request = {"section": section, "seconds": seconds, "quick": quick, "result": result}
        request |= {"only": only, "parent": os.getpid()}
        # The machine's rates go into the user's store: later processes estimate with them.
        own = {} if section == "machine" and not quick else {"DLBLAS_CACHE": f"{folder}/store"}
        env = _environment(**own)
        if section.endswith(("norm", "rows")):  # which copies stream is then known; see copying.py
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


def _gpu_environment(folder: str) -> dict[str, str]:
    """Choices made by timing live in ``folder``, only as long as the section: our store, and all of
    Inductor's caches (configurations, timings, and graphs whose code holds such a choice). Triton's
    compiled kernels depend on source and options alone, so they may outlive it."""
    home = os.environ.get("TRITON_HOME") or os.path.expanduser("~")
    compiled = os.environ.get("TRITON_CACHE_DIR") or os.path.join(home, ".triton", "cache")
    return _environment(
        DLBLAS_CACHE=os.path.join(folder, "store"),
        TORCHINDUCTOR_CACHE_DIR=os.path.join(folder, "inductor"),
        TRITON_CACHE_DIR=compiled,  # or Inductor would take a folder within its own
    )


def _run_gpu(
    section: str,
    seconds: float,
    quick: bool,
    on_row: Callable[[Row], Any],
    prepare: str = "",
    within: float | None = None,
    only: list[str] | None = None,
    share: tuple[int, int] | None = None,
) -> tuple[int, str]:
    """The measuring process' exit code, and why it ended before its last row, or "".
    ``prepare``: an operator whose peers are to be compiled; no rows."""
    with tempfile.TemporaryDirectory(prefix="dlblas-bench-", ignore_cleanup_errors=True) as folder:
        result = os.path.join(folder, "rows.jsonl")
        request = {"section": section, "seconds": seconds, "quick": quick, "result": result}
        request |= {"prepare": prepare, "asked": time.time(), "within": within, "only": only}
        request |= {"parent": os.getpid(), "share": share}
        env = _gpu_environment(folder)
        if section in ("gpu_products", "gpu_attention"):
            env["DLBLAS_LOG"] = "call"  # what ran: gpu_families.py reads it
        code, why = gpu_child.measure(request, env, on_row)
    return code, f"{section} {prepare}".strip() + f" {why}" if why else ""


def _prepare(names: list[str], quick: bool) -> int:
    """Prepares in parallel, since each compilation uses one core; 0 if every process succeeded."""
    parts = [(name, op) for name in names for op in _PREPARED.get(name, ())]
    if not parts:
        known = f"{', '.join(_PREPARED)} or gpu"
        remedy = "run it without --prepare"
        raise _specs.refuse("bench", "--prepare", "has no work", known, names[0], remedy)
    with concurrent.futures.ThreadPoolExecutor(len(parts)) as pool:
        done = list(pool.map(lambda p: _run_gpu(p[0], 0.0, quick, lambda _: None, p[1]), parts))
    failures = [why for code, why in done if code != 0]
    for failure in failures:
        sys.stderr.write(f"dlblas bench: {failure}\n")
    print(f"prepared: {len(parts) - len(failures)} of {len(parts)} parts", flush=True)
    return 1 if failures else 0


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


class _Stamp(NamedTuple):
    """Where a run took place and on which sources: the columns that all of its rows share."""

    root: str | None
    info: Row
    commit: str | None
    dirty: bool | None

    def columns(self, row: Row) -> Row:
        return {
            "what": row["what"],
            "when": datetime.datetime.now(datetime.timezone.utc).isoformat("T", "seconds"),
            "version": self.info["version"],
            "commit": self.commit,
            "dirty": self.dirty,
            "source": source.made_of(row, self.info, self.root),
        }


def _stamp(commit: str | None) -> _Stamp:
    """``commit``: for a tree without git, with "+dirty" appended if files differed."""
    root, info = source.tree_root(), _native.info()
    if commit is None:
        return _Stamp(root, info, *source.commit(root))
    name, plus, rest = commit.partition("+")
    return _Stamp(root, info, name, bool(plus and rest == "dirty"))


def _complete(rows: list[Row], threads: int, quick: bool, stamp: _Stamp) -> list[Row]:
    device = stamp.info["devices"][0]
    where = {"cpu": device["model"], "isa": device["isa"], "threads": threads or device["threads"]}
    method = {"clock": "steady", "statistic": "minimum of interleaved rounds", "quick": quick}
    return [{**stamp.columns(row), **where, "method": method, **row} for row in rows]


def _complete_gpu(row: Row, quick: bool, stamp: _Stamp) -> Row:
    return {**stamp.columns(row), **row, "method": {**row["method"], "quick": quick}}


def describe(row: Row) -> str:
    """A row as one line of a log."""
    dims = " ".join(f"{name}={value}" for name, value in row["problem"].items())
    where = f"threads={row['threads']}" if "threads" in row else ""
    head = " ".join(
        filter(
            None,
            [row["what"], row["op"] or "", dims, row["dtype"] or "", where],
        )
    )
    ours = row["ours"]
    if "missing" in ours:
        return f"{head}: missing: {ours['missing']}"
    time = "min_ms" if "threads" in row else "median_ms"
    shown = [
        f"{key} {ours[key]:.4g}"
        for key in ("min_us", "over_kernel_us", time, "bytes", "copy_bytes_per_s", "peak_flops")
        if key in ours
    ]
    against = f", {row['ratio']:.3f} x {row['against']}" if row.get("ratio") is not None else ""
    missing = [f", {p['name']} missing: {p['missing']}" for p in row["peers"] if "missing" in p]
    return f"{head}: {', '.join(shown)}{against}{''.join(missing)}"


class _Files:
    """Writes each row on arrival: to one file for all sections, or to one file per section."""

    def __init__(self, out: str | None, quick: bool, root: str | None) -> None:
        whole = out is not None and not (out.endswith("/") or os.path.isdir(out))
        self._out, self._all, self._quick, self._root = out, whole, quick, root
        self._path = ""
        if whole and out is not None:
            self._begin(out)

    def _begin(self, path: str) -> None:
        self._path = path
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        open(path, "w", encoding="utf-8").close()

    def add(self, section: str, row: Row) -> None:
        if not self._path:
            path = _default_path(section, row.get("card") or row["cpu"], self._quick, self._root)
            self._begin(path if not self._out else os.path.join(self._out, os.path.basename(path)))
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")

    def end(self, last: bool) -> None:
        """Ends a section, or (``last``) the whole run."""
        if self._path and last == self._all:
            print(f"written: {self._path}", flush=True)
        if not self._all:
            self._path = ""


def _default_path(section: str, machine: str, quick: bool, root: str | None) -> str:
    machine = re.sub(r"[^a-z0-9]+", "-", machine.lower()).strip("-")
    name = f"{section}-{machine}.jsonl"
    if root is None:
        return name
    folder = ("build", "bench") if quick else ("benchmarks", "results")
    return os.path.join(root, *folder, name)


def _section_rows(
    section: str, threads: int, seconds: float | None, quick: bool, only: list[str], stamp: _Stamp
) -> list[Row]:
    if section == "import":
        return [*_import_rows(quick), _wheel_row(stamp.root)]
    budget = _QUICK_SECONDS if quick else _SECONDS.get(section, _DEFAULT_SECONDS)
    return _measure(section, threads, budget if seconds is None else seconds, quick, only)


def _check_section(section: str) -> list[str]:
    names = [*SECTIONS, *GPU_SECTIONS]
    if section not in (*names, "all", "gpu"):
        near = _specs.nearest(section, names).removeprefix("; ") or "name one"
        raise _specs.refuse(
            "bench", "section", "is unknown", f"{', '.join(names)}, gpu or all", section, near
        )
    chosen = {"all": list(SECTIONS), "gpu": list(GPU_SECTIONS)}.get(section, [section])
    if chosen[0] in GPU_SECTIONS and importlib.util.find_spec("torch") is None:
        remedy = "pip install torch"
        raise _specs.refuse("bench", "torch", "is missing", "an installed torch", "none", remedy)
    return chosen


def _check_only(sections: list[str], only: list[str]) -> None:
    if only and (len(sections) > 1 or sections[0] not in (*_OF_MANY, *_STEPS)):
        remedy = "run `dlblas bench rows --only …`"
        expected = f"one of {', '.join((*_OF_MANY, *_STEPS))}"
        raise _specs.refuse("bench", "--only", "names operators", expected, sections[0], remedy)
    known = [row["name"] for row in _native.info()["operators"]]
    if steps := _STEPS.get(sections[0]):
        known = list(steps)
    elif sections[0] in _OF_FUNCTIONS:
        known = [name for name in dir(sys.modules["dlblas"]) if not name.startswith("_")]
        known.append("flash_attention_backward")  # what a gradient runs
    for name in only:
        if name not in known:
            near = _specs.nearest(name, known).removeprefix("; ")
            if steps:
                expected = f"one of {', '.join(steps)}"
                raise _specs.refuse("bench", "--only", "is no step", expected, name, near)
            near = near or "see `dlblas list`"
            raise _specs.refuse("bench", "--only", "is no operator", "an operator", name, near)


def _gpu_section(
    name: str,
    seconds: float | None,
    quick: bool,
    stamp: _Stamp,
    files: _Files,
    within: float | None = None,
    only: list[str] | None = None,
    share: tuple[int, int] | None = None,
) -> int:
    """Runs one GPU section; returns its exit code."""

    def on_row(found: Row) -> None:
        row = _complete_gpu(found, quick, stamp)
        files.add(name, row)
        print(describe(row), flush=True)

    budget = _QUICK_SECONDS if quick else GPU_SECTIONS[name]
    asked = budget if seconds is None else seconds
    code, why = _run_gpu(name, asked, quick, on_row, within=within, only=only, share=share)
    if why:
        sys.stderr.write(f"dlblas bench: {why}\n")
    return code


def _cpu_section(
    name: str,
    threads: list[int] | None,
    seconds: float | None,
    quick: bool,
    only: list[str],
    stamp: _Stamp,
) -> tuple[list[Row], bool]:
    fixed = threads is None or name in ("host", "python", "import", "compile")
    rows, failed = list[Row](), False
    for count in SECTIONS[name] if fixed else threads or ():
        cores = counted(count, "thread") if count else "as many threads as there are"
        sys.stderr.write(f"dlblas bench: {name}, {cores} …\n")  # its rows may take minutes
        try:
            found = _section_rows(name, count, seconds, quick, only, stamp)
        except BenchError as failure:
            sys.stderr.write(f"dlblas bench: {failure}\n")
            failed = True
            continue
        complete = _complete(found, count, quick, stamp)
        for row in complete:
            print(describe(row), flush=True)
        rows += complete
    return rows, failed


def run(
    section: str,
    out: str | None,
    threads: list[int] | None,
    seconds: float | None,
    quick: bool,
    commit: str | None = None,
    prepare: bool = False,
    within: float | None = None,
    only: list[str] | None = None,
    share: tuple[int, int] | None = None,
) -> int:
    """Measures and writes rows, a GPU's as they arrive; returns 0 if every section succeeded, 130
    if one was interrupted, else 1. ``out``: a file for all, or a folder with one file per
    section. ``prepare``: only compiles the sections' peers. ``within``: seconds after which each
    GPU section ends, with the rows that it has. ``only``: the operators of rows, gpu_rows and
    compile, the functions of products and attention, on the CPU and on a GPU, and the steps of
    gpu_llama. ``share``: (1, 4) measures the first, fifth … problem of the GPU sections of many
    problems; four processes, each on a GPU of its own, measure them all."""
    names = _check_section(section)
    _check_only(names, only or [])
    if prepare:
        return _prepare(names, quick)
    stamp = _stamp(commit)
    files, any_failed = _Files(out, quick, stamp.root), False
    for name in names:
        if name in GPU_SECTIONS:
            code = _gpu_section(name, seconds, quick, stamp, files, within, only, share)
        else:
            rows, failed = _cpu_section(name, threads, seconds, quick, only or [], stamp)
            code = 1 if failed else 0
            for row in rows:
                files.add(name, row)
        any_failed |= code != 0
        files.end(last=False)
        if code == gpu_child.INTERRUPTED:
            break
    files.end(last=True)
    if code == gpu_child.INTERRUPTED:
        return code
    return 1 if any_failed else 0
