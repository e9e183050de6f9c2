"""``TritonAutoTuner``: finds a kernel's fastest configuration that agrees with the default one.

In: a function that takes its configuration as keyword arguments. Out: ``TuningResult``. Each
configuration runs on the original arguments and is compared with the default one; those that raise
or differ are excluded, and recorded with the kind of failure. The others are timed round by round
in this process; the latency of each is the median. Read next: check.py, clock.py, cache.py.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch

from ..._arguments import hinted
from ...errors import TuningFailedError
from ...own import _source
from ..models import KernelMetrics, TuningResult
from . import arrays, clock
from .cache import Candidate, ConfigCache, key_of
from .check import Check
from .configs import Config, generate_configs, get_default_config


class _Found(NamedTuple):
    candidates: list[Candidate]
    last: Exception | None  # of the configurations that failed

    def timed(self) -> list[tuple[Config, KernelMetrics]]:
        return [
            (dict(c.config), KernelMetrics(statistics.median(c.samples_ms), 0.0, 0.0, 0.0))
            for c in self.candidates
            if c.samples_ms
        ]


@hinted
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
        """Finds the fastest configuration for these arguments.

        With ``problem_size`` and ``device`` the winner is remembered, and a later call only times
        it again, until the space lacks it, or the kernel's source or what it holds has changed.
        A configuration that raises, or whose results differ from the default one's (that of
        ``get_default_config`` if the space has it, else the first that runs), is excluded with a
        warning; if all are, TuningFailedError carries the last error. Tensors and arrays are left
        as after one run of the winner on the original arguments."""
        source = _source.digest(_source.text_of(self.kernel_fn))
        key = key_of(kernel_type, problem_size, device) if problem_size and device else None
        with _device_of([*args, *kwargs.values()], device) as gpu:
            search = _Search(self, args, kwargs, gpu)
            default = self._default(kernel_type)
            known = self.cache.kept(key) if key else None
            if known and known.config in self.all_configs and known.source in (None, source):
                # A search has checked its own choice; one that was set by hand is checked now.
                right = default if known.source is None else known.config
                for config, metrics in search.run([known.config], right).timed():
                    search.leave(config)
                    return TuningResult(config, metrics, [], problem_size, device)
            found = search.run(self.all_configs, default)
            timed = found.timed()
            if not timed:
                tried = len(self.all_configs)
                raise TuningFailedError(problem_size, tried, found.last) from found.last
            best, metrics = min(timed, key=lambda entry: entry[1].latency_ms)
            search.leave(best)
        if key:
            self.cache.keep(key, best, found.candidates, source)
        return TuningResult(dict(best), metrics, timed, problem_size, device)

    def get_cached_config(
        self, problem_size: tuple[int, ...], device: str, kernel_type: str = "unknown"
    ) -> Config | None:
        return self.cache.get(kernel_type, problem_size, device)

    def clear_cache(self) -> None:
        self.cache.clear()

    def _default(self, kernel_type: str) -> Config:
        preset = get_default_config(kernel_type)
        return preset if preset in self.all_configs else next(iter(self.all_configs), {})


class _Search:
    """One call of tune(): its arguments, and what the default computes from them."""

    def __init__(
        self, tuner: TritonAutoTuner, args: tuple[Any, ...], kwargs: dict[str, Any], gpu: bool
    ) -> None:
        self._kernel, self._args, self._kwargs = tuner.kernel_fn, args, kwargs
        self._warmup_runs = max(1, tuner.warmup_runs)
        self._rounds = max(1, tuner.benchmark_runs)
        self._gpu = gpu
        self._check = Check(args, kwargs)

    def run(self, configs: list[Config], default: Config) -> _Found:
        """Checks all against the default, or else the first that runs; times those that agree."""
        learned: Config | None = None
        last: Exception | None = None
        failed: dict[int, Candidate] = {}
        everyone = configs if default in configs or not configs else [*configs, default]
        for i in sorted(range(len(everyone)), key=lambda i: everyone[i] != default):
            run = self._run_of(everyone[i])
            try:
                if learned is None:
                    self._check.learn(run)
                    learned, wrong = everyone[i], None
                else:
                    wrong = self._check.difference(run)
                for _ in range(self._warmup_runs if wrong is None else 0):
                    run()
                if self._gpu:
                    torch.cuda.synchronize()
            except Exception as error:  # of the kernel, or of its compiler
                last, words = error, str(error)
                failed[i] = Candidate(everyone[i], failure=_kind_of(error))
            else:
                if wrong is None:
                    continue
                words = wrong.note
                failed[i] = Candidate(everyone[i], failure="wrong_result", error=wrong.error)
            warnings.warn(f"configuration {everyone[i]} failed: {words}", stacklevel=3)
        runs = {i: self._run_of(c) for i, c in enumerate(configs) if i not in failed}
        times = self._times(runs) if runs else {}
        found = [
            failed.get(i) or Candidate(c, tuple(times[i]), is_default=c == learned)
            for i, c in enumerate(configs)
        ]
        return _Found(found, last)

    def leave(self, config: Config) -> None:
        """Leaves the tensors as after one run of this configuration."""
        self._check.restore()
        self._run_of(config)()

    def _run_of(self, config: Config) -> Callable[[], Any]:
        return lambda: self._kernel(*self._args, **config, **self._kwargs)

    def _times(self, runs: dict[int, Callable[[], Any]]) -> dict[int, list[float]]:
        self._check.restore()
        measure = clock.on_gpu if self._gpu else clock.on_host
        return measure(runs, self._rounds)


def _kind_of(error: Exception) -> str:
    """The kind of failure, in the words of the library's records, without importing Triton."""
    name = type(error).__name__
    if name in ("OutOfMemoryError", "MemoryError"):
        return "out_of_memory"
    if name in ("CompilationError", "OutOfResources", "PTXASError"):
        return "compile_error"
    return "launch_error"


@contextlib.contextmanager
def _device_of(values: list[Any], device: str | None) -> Iterator[bool]:
    """Yields whether kernels run on a GPU, by the arguments or else by the device's name; inside,
    that GPU is the current one."""
    found = [t.device for t in arrays.tensors_in(values)]
    if not found and device:
        with contextlib.suppress(RuntimeError):  # a name of the user's own
            found = [torch.device(str(device))]
    gpus = [d for d in found if d.type == "cuda"] if torch.cuda.is_available() else []
    if not gpus:
        yield False
        return
    with torch.cuda.device(gpus[0]):
        yield True
