"""Checks whether a configuration computes the same results as the default one.

In: a kernel's arguments, and runs of it. Out: None, or the reason why not, with a distance. Results
are what a kernel returns and what it leaves in its arguments: tensors, NumPy arrays, numbers. They
are compared only where two runs of the default agree, so that unwritten memory and random numbers
do not count. Read next: arrays.py, tuner.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from . import arrays

# An element may differ by 4 roundings of its own (one in f8) plus this share of its row's largest
# value: sums may run in another order, and f16 or bf16 kernels may round partial sums.
_ROUNDINGS, _ROUNDINGS_F8 = 4, 1
_OF_THE_ROW = {torch.float64: 2.0**-43, torch.float32: 2.0**-14}
_NARROW = 2.0**-10
_BLOCK = 1 << 22  # elements that are compared at a time


class Difference(NamedTuple):
    note: str
    error: float  # over what is allowed; inf for NaN, another shape, another integer


class Check:
    """Created before anything runs: keeps a copy of the arguments."""

    def __init__(self, *arguments: Any) -> None:
        # A broadcast tensor cannot be a result, and cannot be written back.
        memory = arrays.memory_in(arguments)
        given = (t for t in memory if 0 not in t.stride() or t.numel() <= 1)
        self._arguments = list({(t.data_ptr(), t.shape, t.stride()): t for t in given}.values())
        self._before = [t.clone() for t in self._arguments]
        self._poisoned: list[int] = []  # arguments that are only written
        self._expected: list[torch.Tensor] = []
        self._known: list[torch.Tensor] = []  # where the default agrees with itself

    def restore(self) -> None:
        """Restores the arguments to what they were."""
        for tensor, before in zip(self._arguments, self._before, strict=True):
            tensor.copy_(before)

    def learn(self, run: Callable[[], Any]) -> None:
        """Takes the default's results as right. From here on, results among the arguments hold NaN
        before each run, if that changes nothing: an unwritten element then shows."""
        self._poisoned = []
        self._expected = self._results(run)
        arguments = zip(self._expected, self._before, strict=False)  # they come first
        self._poisoned = [
            i
            for i, (now, before) in enumerate(arguments)
            if now.is_floating_point() and not bool(_same(now, before).all())
        ]
        self._known = self._agreement(run)
        if self._poisoned and not all(bool(known.all()) for known in self._known):
            self._poisoned = []
            self._known = self._agreement(run)

    def difference(self, run: Callable[[], Any]) -> Difference | None:
        """How another configuration's results differ from the default's, or None."""
        results = self._results(run)
        if len(results) != len(self._expected):
            count = len(self._arguments)
            words = f"returns {len(results) - count} results, not {len(self._expected) - count}"
            return Difference(words, math.inf)
        worst = None
        for got, want, known in zip(results, self._expected, self._known, strict=True):
            found = _compare(got, want, known)
            if found and (worst is None or found.error > worst.error):
                worst = found
        return worst

    def _agreement(self, run: Callable[[], Any]) -> list[torch.Tensor]:
        again = self._results(run)
        if len(again) != len(self._expected):
            raise ValueError("the default returns another number of results each time")
        return [_alike(a, b) for a, b in zip(again, self._expected, strict=True)]

    def _results(self, run: Callable[[], Any]) -> list[torch.Tensor]:
        """The results of one run on the original arguments: the arguments, then what it returns."""
        self.restore()
        for i in self._poisoned:
            self._arguments[i].copy_(torch.tensor(math.nan))
        returned = run()
        return [t.clone() for t in (*self._arguments, *arrays.results_in(returned))]


def _same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Equal, or both NaN."""
    if a.is_floating_point():
        a, b = _wide(a), _wide(b)
    return (a == b) | ((a != a) & (b != b))


def _alike(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Where two runs of the default agree."""
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device:
        return torch.zeros(b.shape, dtype=torch.bool, device=b.device)
    if not a.is_floating_point():
        return a == b
    parts = [_distance(x, y, b.dtype) <= 1 for x, y in zip(_blocks(a), _blocks(b), strict=True)]
    return torch.cat(parts).reshape(b.shape) if parts else torch.ones_like(b, dtype=torch.bool)


def _compare(got: torch.Tensor, want: torch.Tensor, known: torch.Tensor) -> Difference | None:
    if got.shape != want.shape or got.dtype != want.dtype:
        words = f"a result is {got.dtype} {list(got.shape)}, not {want.dtype} {list(want.shape)}"
        return Difference(words, math.inf)
    got = got.to(want.device)
    if not want.is_floating_point():
        wrong = int(((got != want) & known).sum())
        return Difference(f"{wrong} elements are others", math.inf) if wrong else None
    wrong, error = 0, 0.0
    for a, b, there in zip(_blocks(got), _blocks(want), _blocks(known), strict=True):
        far = _distance(a, b, want.dtype)[there]
        wrong += int((far > 1).sum())
        error = max(error, float(far.max()) if far.numel() else 0.0)
    if not wrong and got.isnan().any() and not want.isnan().any():  # where nothing is known, too
        return Difference("a result has NaN, and the default's has none", math.inf)
    if not wrong:
        return None
    return Difference(f"{wrong} of {want.numel()} elements differ from the default's", error)


def _blocks(value: torch.Tensor) -> list[torch.Tensor]:
    """Splits into blocks of whole rows, because differences are computed in a wider type."""
    width = value.shape[-1] if value.dim() else 1
    if value.numel() == 0:
        return []
    return list(value.reshape(-1, width).split(max(1, _BLOCK // width)))


def _wide(value: torch.Tensor) -> torch.Tensor:
    return value if value.dtype is torch.float64 else value.float()


def _distance(got: torch.Tensor, want: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Error over allowed error: 0 for equal values, NaN and infinities too; inf for one NaN."""
    a, b = _wide(got), _wide(want)
    largest = torch.where(b.isfinite(), b.abs(), 0.0).amax(-1, keepdim=True)
    facts = torch.finfo(dtype)
    share = _OF_THE_ROW.get(dtype, _NARROW)
    roundings = _ROUNDINGS_F8 if facts.bits == 8 else _ROUNDINGS
    allowed = roundings * facts.eps * b.abs() + share * largest + facts.tiny
    far = ((a - b).abs() / allowed).nan_to_num(nan=math.inf, posinf=math.inf)
    # An infinite value would allow any distance: there, anything but the same value is wrong.
    far = torch.where(b.isfinite(), far, math.inf)
    return torch.where(_same(a, b), 0.0, far)
