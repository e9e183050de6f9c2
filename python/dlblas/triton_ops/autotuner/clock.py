"""Times a kernel's configurations in turns, so that other load on the machine slows all alike.

In: name → a function without arguments. Out: name → milliseconds of one run, one value per round.
Read next: tuner.py, ../../bench/timing.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ...bench import timing

Runs = Mapping[int, Callable[[], Any]]
Times = dict[int, list[float]]

_L2_TIMES = 3
_MIN_FLUSH = 256 << 20  # writing as much takes longer than the host needs for a launch


def on_host(runs: Runs, rounds: int) -> Times:
    """Times with the host's clock; short runs are repeated within a sample."""
    named = {str(name): run for name, run in runs.items()}
    measured = timing.interleaved(named, rounds=rounds)
    return {name: measured[str(name)].ms for name in runs}


def on_gpu(runs: Runs, rounds: int) -> Times:
    """Times with events on the current stream and a cold L2 cache. If a run's work goes elsewhere,
    where the events do not see it, times synchronised runs with the host's clock."""
    facts = torch.cuda.get_device_properties(torch.cuda.current_device())
    size = max(_MIN_FLUSH, _L2_TIMES * int(facts.L2_cache_size))
    # While the device writes this, the host runs ahead: no launch overhead between the events.
    flush = torch.empty(size, dtype=torch.int8, device="cuda")
    if any(_elsewhere(run) for run in runs.values()):
        return _synchronised(runs, rounds)
    events = {name: tuple(torch.cuda.Event(enable_timing=True) for _ in range(2)) for name in runs}
    times: Times = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            begin, end = events[name]
            flush.zero_()
            begin.record()
            run()
            end.record()
        torch.cuda.synchronize()
        for name, (begin, end) in events.items():
            times[name].append(begin.elapsed_time(end))
    return times


def _elsewhere(run: Callable[[], Any]) -> bool:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start = time.perf_counter()
    begin.record()
    run()
    end.record()
    end.synchronize()
    seen = time.perf_counter() - start
    torch.cuda.synchronize()
    whole = time.perf_counter() - start
    return whole > 2 * seen + 1e-4


def _synchronised(runs: Runs, rounds: int) -> Times:
    times: Times = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            run()
            torch.cuda.synchronize()
            times[name].append((time.perf_counter() - start) * 1e3)
    return times
