"""Device times of several contestants in one process: CUDA graphs of unrolled launches, replayed in
turns, over inputs and outputs rotated through three times the L2 cache.

In: contestants, each a function of the set of arrays. Out: name → ``Samples``, milliseconds of one
run. They contain no host jitter. Read next: gpu.py.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Container, Mapping
from typing import Any, NamedTuple

import torch

from .gpu_edges import make_full
from .timing import Samples

# A run on set i of the arrays. Its return value stays alive until that set's next turn, so results
# that a contestant allocates rotate like preallocated ones.
Run = Callable[[int], Any]

ROUNDS, MIN_ROUNDS = 15, 5
_REPLAY_MS = 2.0  # at least: what a replay adds before its first kernel is microseconds
_LIMIT_S = 2.0  # of all rounds of a problem, once there are enough of them
_L2_TIMES = 3
_MAX_SETS = 1 << 14  # nodes of a graph; 3 x 60 MB of rows of 8 KiB, read and written


class Rotation(NamedTuple):
    """How many sets of arrays to rotate through so that together they exceed the L2 cache."""

    sets: int
    bytes_a_set: int

    @property
    def l2(self) -> str:
        return "cold" if self.sets * self.bytes_a_set >= _L2_TIMES * l2_bytes() else "warm"


def l2_bytes() -> int:
    return int(torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size)


def rotation(bytes_a_set: int, most: int = _MAX_SETS) -> Rotation:
    needed = -(-_L2_TIMES * l2_bytes() // bytes_a_set)
    return Rotation(max(1, min(most, needed)), bytes_a_set)


class Captured:
    """A contestant's graph: ``launches`` runs, cycling through the sets. ``serial``: no kernel
    begins before the one ahead of it ends."""

    def __init__(
        self, run: Run, sets: int, stream: torch.cuda.Stream, serial: bool = False
    ) -> None:
        self._stream, self._alive, self._serial = stream, [None] * sets, serial
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        with torch.cuda.stream(stream):
            run(0)  # nothing compiles or makes handles in a capture
            run(sets - 1)
            stream.synchronize()
        self._capture(run, 1)
        self.sample()  # the first replay uploads the graph
        turns = math.ceil(_REPLAY_MS / max(self.sample() * sets, 1e-3))
        if turns > 1:
            self._capture(run, turns)
            self.sample()

    def _capture(self, run: Run, turns: int) -> None:
        # Not torch.cuda.graph(): it empties the allocator's cache at every entry, which costs more
        # than most captures here.
        self.launches = turns * len(self._alive)
        self._graph = torch.cuda.CUDAGraph(keep_graph=self._serial)
        with torch.cuda.stream(self._stream):
            self._graph.capture_begin(capture_error_mode="thread_local")
            try:
                for _ in range(turns):
                    for i in range(len(self._alive)):
                        self._alive[i] = run(i)
            finally:
                self._graph.capture_end()
        if self._serial:
            make_full(self._graph.raw_cuda_graph())
            self._graph.instantiate()

    def sample(self) -> float:
        """Milliseconds of one run, from one replay."""
        with torch.cuda.stream(self._stream):
            self._begin.record(self._stream)
            self._graph.replay()
            self._end.record(self._stream)
        self._end.synchronize()
        milliseconds: float = self._begin.elapsed_time(self._end)
        return milliseconds / self.launches


def interleaved(
    contestants: Mapping[str, Run],
    sets: int,
    rounds: int,
    prepare: Mapping[str, Callable[[], Any]],
    stream: torch.cuda.Stream,
    serial: Container[str] = (),
) -> tuple[dict[str, Samples], dict[str, str]]:
    """Samples of those that run, and why the others do not. ``prepare[name]`` runs before that
    contestant is captured. ``serial``: see ``Captured``."""
    captured: dict[str, Captured] = {}
    failed: dict[str, str] = {}
    for name, run in contestants.items():
        try:
            prepare[name]()
            captured[name] = Captured(run, sets, stream, name in serial)
        except Exception as error:  # a peer that refuses a problem is a finding, not a failure
            failed[name] = one_line(error)
            captured.pop(name, None)
            torch.cuda.synchronize()
    times: dict[str, list[float]] = {name: [] for name in captured}
    names = list(captured)
    started = time.monotonic()
    for turn in range(rounds):
        if turn >= MIN_ROUNDS and time.monotonic() - started > _LIMIT_S:
            break
        for name in names if turn % 2 == 0 else reversed(names):
            times[name].append(captured[name].sample())
    return {n: Samples(ms, captured[n].launches) for n, ms in times.items()}, failed


def one_line(error: BaseException) -> str:
    """The error and those that led to it: the failing end of a broken capture hides the cause."""
    text = " ".join(str(error).split()) or "no message"
    before = f", after {one_line(error.__context__)}" if error.__context__ else ""
    return f"{type(error).__name__}: {text[:160]}{before}"


def host_time(
    functions: Mapping[str, Callable[[], Any]], rounds: int, calls: int
) -> dict[str, Samples]:
    """Milliseconds of the host's side of a call, launch included: ``calls`` back-to-back calls
    while the device keeps up, then an untimed synchronisation."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        for _ in range(20):
            function()
    torch.cuda.synchronize()
    for _ in range(rounds):
        for name, function in functions.items():
            begin = time.perf_counter_ns()
            for _ in range(calls):
                function()
            times[name].append((time.perf_counter_ns() - begin) / calls * 1e-6)
            torch.cuda.synchronize()
    return {name: Samples(ms, calls) for name, ms in times.items()}
