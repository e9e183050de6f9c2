"""One problem on a GPU and its contestants: added, checked against the f32 formula, timed in
turns, and reported as a row.

Used by: gpu.py. Read next: gpu_timing.py.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

import dlblas
from dlblas.bench import peers
from dlblas.bench.gpu_timing import Rotation, Run, interleaved, one_line
from dlblas.bench.timing import Samples

Row = dict[str, Any]

_TOLERANCE = 1e-2  # of ‖out - ref‖ / ‖ref‖ in bf16; a wrong answer has no time
_TOLERANCE_OF_BYTES = 3e-2  # in f8


def entry(name: str, version: str, samples: Samples | None, why: str = "", **more: Any) -> Row:
    if samples is None:
        return {"name": name, "version": version, "missing": why}
    return {"name": name, "version": version, **samples.as_dict(), **more}


class Contest:
    """The contestants of one problem: added, checked, timed, and reported as a row."""

    def __init__(self, op: str, rounds: int) -> None:
        self._op, self._rounds = op, rounds
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self._runs: dict[str, Run] = {}
        self._prepare: dict[str, Callable[[], Any]] = {}
        self._versions: dict[str, str] = {}
        self._why: dict[str, str] = {}
        self._serial: set[str] = set()
        self._times: Mapping[str, Samples] = {}
        self._turn = Rotation(1, 0)
        self._took: dict[str, float] = {}
        self._mark = time.monotonic()

    def add(
        self,
        name: str,
        version: str,
        run: Run,
        prepare: Callable[[], Any] | None = None,
        serial: bool = False,
    ) -> None:
        """``serial``: timed without programmatic dependent launch."""
        if serial:
            self._serial.add(name)
        self._runs[name], self._versions[name] = run, version
        self._prepare[name] = prepare or functools.partial(_unpin, self._op)

    def took(self, what: str) -> None:
        """Adds the seconds since the previous call to ``what``: where a problem's time went."""
        now = time.monotonic()
        self._took[what] = round(self._took.get(what, 0) + now - self._mark, 3)
        self._mark = now

    def failed(self, name: str) -> bool:
        return name in self._why

    def missing(self, name: str, why: str, version: str = "") -> None:
        self._versions[name], self._why[name] = version, why

    def check(
        self,
        reference: tuple[torch.Tensor, ...],
        written: Callable[[], Any] | None,
        allowed: float = 1.0,
    ) -> None:
        """Compares one run of each with the f32 formula: one that fails or is wrong drops out.
        ``allowed``: multiple of the tolerance of a result's dtype."""
        torch.cuda.synchronize()
        self.took("making")
        for name, run in list(self._runs.items()):
            if name == peers.COPY:
                continue
            try:
                self._prepare[name]()
                with torch.cuda.stream(self.stream):
                    result = run(0)
                    if result is None and written is not None:
                        result = written()
                    results = result if isinstance(result, tuple) else (result,)
                    off = [wrong_by(g, r) for g, r in zip(results, reference, strict=False)]
                self.stream.synchronize()
                if not max(off, default=0.0) <= allowed:
                    raise ArithmeticError(f"wrong result, {max(off):.2g} times what is allowed")
            except Exception as error:
                self._why[name] = one_line(error)
                del self._runs[name]
                _still_usable(name, error)
            self.took(f"first {name}")
        _unpin(self._op)

    def hold(self, turn: Rotation) -> None:
        self._turn = turn
        self._times, failed = interleaved(
            self._runs, turn.sets, self._rounds, self._prepare, self.stream, self._serial
        )
        self._why.update(failed)
        _unpin(self._op)
        self.took("timing")

    def prepared(self, what: str, problem: Row) -> Row:
        """After ``check``, if nothing is timed: how long each contestant ran, or why it did not."""
        ran = {name: self._took.get(f"first {name}", 0.0) for name in self._runs}
        missing = dict(self._why)
        return {"what": what, "op": self._op, "problem": problem, "ran": ran, "missing": missing}

    def _told(self, name: str, shown: str, **more: Any) -> Row:
        samples = self._times.get(name)
        return entry(shown, self._versions[name], samples, self._why.get(name, ""), **more)

    def row(self, what: str, problem: Row, implementation: str, config: str) -> Row:
        ours = self._told("dlblas", implementation or "dlblas", config=config)
        variants = [n for n in self._versions if n.startswith(("default ", "own ", "ours "))]
        rivals = [n for n in self._versions if n != "dlblas" and n not in variants]
        against = min(
            (n for n in rivals if n in self._times and n != peers.COPY),
            key=lambda n: self._times[n].median_ms,
            default=None,
        )
        ratio = None
        if against is not None and "dlblas" in self._times:
            ratio = self._times[against].median_ms / self._times["dlblas"].median_ms
        return {
            "what": what,
            "op": self._op,
            "problem": problem,
            "dtype": "bf16",
            "method": {
                "clock": "graph",
                "l2": self._turn.l2,
                "statistic": "median of interleaved rounds",
                "n": max((len(samples.ms) for samples in self._times.values()), default=0),
                "sets": self._turn.sets,
            },
            "ours": ours,
            "variants": [self._told(n, n.removeprefix("default ")) for n in variants],
            "peers": [self._told(n, n) for n in rivals],
            "against": against,
            "ratio": ratio,
            "took_s": self._took,
        }


def _still_usable(name: str, error: Exception) -> None:
    """Ends the section with a message if an illegal access left the device unusable."""
    try:
        torch.cuda.synchronize()
    except Exception:
        raise SystemExit(f"{name} left the device unusable: {one_line(error)}") from error


def _unpin(op: str) -> None:
    if op in dlblas.list_operators():
        dlblas.pin(op, None)


def wrong_by(got: torch.Tensor, reference: torch.Tensor) -> float:
    """‖got − reference‖ / ‖reference‖ divided by the tolerance: above 1 is wrong."""
    # A result just below f16's largest value and one that rounds to infinity are neighbours.
    most = torch.finfo(got.dtype).max if got.is_floating_point() else math.inf
    reference = reference.clamp(-most, most)
    difference = (got.float().reshape(reference.shape).clamp(-most, most) - reference).norm()
    allowed = _TOLERANCE if got.element_size() > 1 else _TOLERANCE_OF_BYTES
    return float(difference / reference.norm()) / allowed
