"""``TritonAutoTuner``: the fastest of a kernel's configurations, measured in turns.

In: a function that takes its configuration as keyword arguments. Out: ``TuningResult``. All
configurations that run are timed round by round in one process, so that a neighbour on the machine
slows all of them; the latency of each is the median. On CUDA tensors CUDA events time the current
stream, else the host's clock (bench/timing.py). Results are not checked against anything: a kernel
that should be is registered (``dlblas.register``). Read next: cache.py, ../models.py.
"""

from __future__ import annotations

import os
import statistics
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from ...bench import timing
from ...errors import TuningFailedError
from ..models import KernelMetrics, TuningResult
from .cache import ConfigCache
from .configs import Config, generate_configs


def _on_gpu(values: Iterable[Any], device: str | None) -> bool:
    """Do the arguments, or else the device's name, say that kernels go to a stream?"""
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if tensors:
        return any(tensor.is_cuda for tensor in tensors)
    return bool(device) and torch.cuda.is_available() and str(device).startswith("cuda")


class TritonAutoTuner:
    """Searches the whole of ``config_space`` for ``kernel_fn(*args, **config, **kwargs)``."""

    def __init__(
        self,
        kernel_fn: Callable[..., Any],
        config_space: Mapping[str, list[Any]],
        warmup_runs: int = 10,
        benchmark_runs: int = 100,
        cache_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self.kernel_fn, self.config_space = kernel_fn, config_space
        self.warmup_runs, self.benchmark_runs = warmup_runs, benchmark_runs
        self.cache = ConfigCache(cache_dir)
        self.all_configs = generate_configs(config_space)

    def tune(
        self,
        *args: Any,
        problem_size: tuple[int, ...] | None = None,
        device: str | None = None,
        kernel_type: str = "unknown",
        **kwargs: Any,
    ) -> TuningResult:
        """With a problem size and a device the winner is remembered, and only measured anew when
        it is asked for again. A configuration that raises is left out with a warning; when all do,
        TuningFailedError carries the last error."""
        gpu = _on_gpu([*args, *kwargs.values()], device)
        known = (
            problem_size and device and self.get_cached_config(problem_size, device, kernel_type)
        )
        if known:
            found, _ = self._measure([known], args, kwargs, gpu)
            if found:
                return TuningResult(known, found[0][1], [], problem_size, device)
        found, error = self._measure(self.all_configs, args, kwargs, gpu)
        if not found:
            raise TuningFailedError(problem_size, len(self.all_configs), error) from error
        best, metrics = min(found, key=lambda entry: entry[1].latency_ms)
        if problem_size and device:
            self.cache.set(kernel_type, problem_size, device, best)
        return TuningResult(dict(best), metrics, found, problem_size, device)

    def get_cached_config(
        self, problem_size: tuple[int, ...], device: str, kernel_type: str = "unknown"
    ) -> Config | None:
        return self.cache.get(kernel_type, problem_size, device)

    def clear_cache(self) -> None:
        self.cache.clear()

    def _measure(
        self, configs: list[Config], args: tuple[Any, ...], kwargs: dict[str, Any], gpu: bool
    ) -> tuple[list[tuple[Config, KernelMetrics]], Exception | None]:
        """Those that run with what they took, in order, and the last error of the others."""
        runs: dict[str, Callable[[], Any]] = {}
        last: Exception | None = None
        for index, config in enumerate(configs):

            def run(config: Config = config) -> Any:
                return self.kernel_fn(*args, **config, **kwargs)

            try:
                for _ in range(max(1, self.warmup_runs)):
                    run()
                if gpu:
                    torch.cuda.synchronize()
                runs[str(index)] = run
            except Exception as error:  # of the kernel, or of its compiler
                warnings.warn(f"configuration {config} failed: {error}", stacklevel=3)
                last = error
        rounds = max(1, self.benchmark_runs)
        times = _events(runs, rounds) if gpu else _host(runs, rounds)
        found = [
            (dict(configs[int(name)]), KernelMetrics(latency_ms, 0.0, 0.0, 0.0))
            for name, latency_ms in times.items()
        ]
        return found, last


def _host(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    measured = timing.interleaved(runs, rounds=rounds)
    return {name: samples.median_ms for name, samples in measured.items()}


def _events(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            run()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end))
    return {name: statistics.median(samples) for name, samples in times.items()}
