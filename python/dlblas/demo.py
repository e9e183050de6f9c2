"""``dlblas demo``: tunes the matrix product and the norms of a Llama-3-8B layer on this machine in
an empty store, then serves them from that store in a new process; on a CPU, runs a small Llama too.

Out: a text report on stdout, and a JSON file with the machine, every key of both passes and the
library's counters. Returns 1 if a promise is broken: an error above its bound, or a second pass
that measured, compiled or missed. Read next: _demo_pass.py, which does the work.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

from . import _native, _specs
from ._options import DEMO_SECONDS
from ._streams import complain
from ._text import columns, harmless, microseconds

Row = dict[str, Any]

OPERATORS = ("matmul", "rms_norm", "add_rms_norm")
_TIMING_S = 1.0  # a key, at most
_COPY_BYTES = 256 << 20

_QUICK_DIMS = {
    "matmul": {"M": 4, "K": 64, "N": 64},
    "rms_norm": {"T": 4, "C": 64},
    "add_rms_norm": {"T": 4, "C": 64},
}


class PassError(Exception):
    """A pass ended early; it has said why on stderr."""


def _keys(quick: bool) -> list[Row]:
    """The families' cases for the demo; one tiny shape per operator when ``quick``."""
    info, keys = _native.info(), []
    for op in OPERATORS:
        row = _specs.operator_row(op, info)[0]
        cases = _specs.cases(row, "demo")
        if quick:
            cases = [{"name": "quick", "dims": _QUICK_DIMS[op]}]
        keys += [{"op": op, "case": case} for case in cases]
    return keys


def _run_pass(
    number: int, root: str, seconds: float, quick: bool, device: str, ceilings: Row
) -> Row:
    """Runs the keys of one pass in a new process."""
    request = {
        "pass": number,
        "device": device,
        "seconds": seconds,
        "keys": _keys(quick),
        "ceilings": ceilings,
        "timing_s": 0.05 if quick else _TIMING_S,
        "copy_bytes": (1 << 20) if quick else _COPY_BYTES,
    }
    return _run_child("_demo_pass", f"pass {number}", root, request)


def _run_child(module: str, what: str, root: str, request: Row) -> Row:
    """Runs the module with this request and the demo's own store, which the environment names
    before the library loads; returns the JSON that the module writes."""
    result = os.path.join(root, f"{module}.json")
    env = {**os.environ, "DLBLAS_CACHE": os.path.join(root, "store")}
    package_parent = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [package_parent, env.get("PYTHONPATH", "")]))
    command = [sys.executable, "-m", f"dlblas.{module}"]
    text = json.dumps({**request, "result": result})
    done = subprocess.run(command, input=text, text=True, env=env)
    if done.returncode != 0:
        raise PassError(f"{what} ended with exit code {done.returncode}")
    with open(result, encoding="utf-8") as file:
        made: Row = json.load(file)
    os.remove(result)
    return made


def _run_llama(root: str, quick: bool) -> Row:
    """Runs the small model in its own process, on the store of the passes."""
    return _run_child("_demo_llama", "the small Llama", root, {"quick": quick})


def _broken_promises(first: Row, second: Row, llama: Row | None = None) -> list[str]:
    broken = []
    if llama and not llama["ok"]:
        broken.append(f"the small Llama: logits of decoding are off by {llama['error']:.3g}")
    for number, made in ((1, first), (2, second)):
        for row in made["keys"]:
            if not row["ok"] or row["mistrusted"]:
                error = f"{row['error_over_bound']:.3g} of its bound"
                broken.append(f"pass {number}: {row['label']} is off by {error}")
    for row in first["keys"]:
        if row["source"] != "tuned":
            broken.append(f"pass 1: {row['label']} came from {row['source']}, not from a search")
    for row in second["keys"]:
        if row["source"] != "store":
            broken.append(f"pass 2: {row['label']} came from {row['source']}, not from the store")
    for name in ("measured", "compiled"):
        if second["counters"][name] != 0:
            broken.append(f"pass 2: {name}={second['counters'][name]}, expected 0")
    return broken


def _summary(first: Row, second: Row) -> str:
    rival = first["keys"][0]["rival"]
    timed = "a call" if first["device"] == "cpu" else "device"
    rows = [
        ["", "winner", timed, f"vs {rival}", "kernel", "of the ceiling", "error/bound", "again"]
    ]
    for a, b in zip(first["keys"], second["keys"], strict=True):
        rows.append(
            [
                a["label"],
                a["implementation"],
                microseconds(a["times"]["dlblas"]["min_ms"]),
                f"{a['vs_rival']:.2f}x",
                microseconds(a["kernel_ms"]),
                f"{100 * a['of_ceiling']:.0f} % {a['ceiling']}",
                f"{max(a['error_over_bound'], b['error_over_bound']):.2g}",
                f"{b['source']}, {microseconds(b['times']['dlblas']['min_ms'])}",
            ]
        )
    return columns(rows, right=(2, 3, 4, 6))


def _device(asked: str | None) -> str:
    """The device: a GPU, if one can be used and torch is there to hold tensors on it, else the
    CPU."""
    device = _specs.choose_device(asked)
    if device == "cpu" or importlib.util.find_spec("torch"):
        return device
    if asked is None:
        return "cpu"
    raise _specs.refuse(
        "demo", "torch", "is missing", "an installed torch", "none", "install it, or --device cpu"
    )


def run(
    out: str | None, root: str | None, seconds: float | None, quick: bool, device: str | None = None
) -> int:
    """Runs both passes; 0 if every promise held. Without ``root``, in a folder that it then
    removes."""
    try:
        if root is not None:
            return _run(out, root, seconds, quick, _device(device))
        with tempfile.TemporaryDirectory(prefix="dlblas-demo-") as folder:
            return _run(out, folder, seconds, quick, _device(device))
    except PassError as failure:
        complain(f"dlblas demo: {failure}")
        return 1


def _run(out: str | None, root: str, seconds: float | None, quick: bool, device: str) -> int:
    budget = seconds if seconds is not None else (0.2 if quick else DEMO_SECONDS)
    begin = time.monotonic()
    root = os.path.abspath(root)
    store = os.path.join(root, "store")
    shutil.rmtree(store, ignore_errors=True)
    os.makedirs(root, mode=0o700, exist_ok=True)
    if out is not None:
        os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    # A file that cannot be written fails here, before minutes of work.
    for written in filter(None, (os.path.join(root, "_demo_pass.json"), out)):
        with open(written, "a", encoding="utf-8"):
            pass
    print(
        f"Pass 1: an empty store, at most {budget:g} s of search a key "
        f"({4 * budget:g} s for the longest)\n",
        flush=True,
    )
    first = _run_pass(1, root, budget, quick, device, {})
    print("\nPass 2: a new process, the same calls, from the store\n", flush=True)
    second = _run_pass(2, root, budget, quick, device, first["ceilings"])
    print(f"\n{_summary(first, second)}\n", flush=True)
    llama = _run_llama(root, quick) if device == "cpu" else None
    elapsed = time.monotonic() - begin
    broken = _broken_promises(first, second, llama)
    counters = second["counters"]
    sources = ",".join(sorted({row["source"] for row in second["keys"]}))
    print(
        f"second pass: measured={counters['measured']} compiled={counters['compiled']}"
        f" source={sources}; {elapsed:.0f} s in all"
    )
    record = {
        "version": first["version"],
        "machine": first["machine"],
        "device": device,
        "seconds_per_key": budget,
        "quick": quick,
        "elapsed_s": elapsed,
        "broken": broken,
        "llama": llama,
        "first": {key: first[key] for key in ("store", "keys", "counters")},
        "second": {
            **{key: second[key] for key in ("store", "keys", "counters")},
            "source": sources,
            "measured": counters["measured"],
            "compiled": counters["compiled"],
        },
    }
    if out is not None:
        with open(out, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)
            file.write("\n")
        print(f"written: {harmless(out)}")
    for line in broken:
        complain(f"dlblas demo: {harmless(line)}")
    return 1 if broken else 0
