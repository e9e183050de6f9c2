"""Whether a result shares memory with an input, for functions that call an operator several times:
each call checks only its own part, and a later one would read what an earlier one wrote.

In: arrays of any package that exposes their addresses. Out: nothing, or an error before the first
call. Used by: ops/gemm/api.py. Read next: src/core/overlap.cpp, the operators' own check.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from ._array import Array
from ._hooks import has_memory
from .errors import ArgumentError


class _Place(NamedTuple):
    """The memory of an array, in bytes."""

    address: int
    dims: tuple[tuple[int, int], ...]  # size and step, of dimensions with two indices or more
    item: int

    def span(self, step: int = 0) -> tuple[int, int]:
        """The first byte, and the one past the last. With ``step``, dimensions whose stride is a
        multiple of it do not count."""
        low, high = self.address, self.address + self.item
        for size, each in self.dims:
            if step and each % step == 0:
                continue
            reach = (size - 1) * each
            low, high = low + min(0, reach), high + max(0, reach)
        return low, high


def check_apart(op: str, out: Any, **inputs: Any) -> None:
    """Refuses an out that overlaps an input or itself."""
    place = _place_of(out)
    if place is None:
        return
    if not _is_nested(place):
        expected = "a destination in which every element has its own memory"
        got = "a broadcast or overlapping view"
        raise ArgumentError.from_library(
            f"{op}: out overlaps itself; expected {expected}, got {got}", op, "out", expected, got
        )
    for name, array in inputs.items():
        other = None if array is None else _place_of(array)
        if other is None or _are_apart(place, other):
            continue
        expected, got = "memory of its own", f"strides that lead into memory of {name}"
        raise ArgumentError.from_library(
            f"{op}: out overlaps {name}; expected {expected}, got {got}; give another out",
            op, "out", expected, got,
        )  # fmt: skip


def address_of(x: Any) -> int | None:
    """The address of the first element; None if there is none or it is not exposed."""
    place = _place_of(x)
    return None if place is None else place.address


def _place_of(x: Any) -> _Place | None:
    """The memory of x; None if it has no elements or does not expose an address, as a tracer's
    tensor."""
    torch = sys.modules.get("torch")
    if isinstance(x, Array):
        address, _, bits, shape, steps, *_ = x._exchange
        item = bits // 8
    elif torch is not None and isinstance(x, torch.Tensor):
        if torch.compiler.is_compiling() or not has_memory(torch, x):
            return None
        address, item, shape = x.data_ptr(), x.element_size(), tuple(x.shape)
        steps = tuple(step * item for step in x.stride())
    else:
        found = getattr(x, "__array_interface__", None)
        found = getattr(x, "__cuda_array_interface__", None) if found is None else found
        steps = getattr(x, "strides", None)
        if not isinstance(found, dict) or not isinstance(steps, tuple):
            return None
        address, item, shape = found["data"][0], x.itemsize, tuple(x.shape)
    if 0 in shape:
        return None
    dims = (one for one in zip(shape, steps, strict=True) if one[0] > 1)
    return _Place(address, tuple(dims), item)


def _is_nested(place: _Place) -> bool:
    """Whether each dimension's stride exceeds the reach of the smaller ones: no two elements share
    memory."""
    reach = place.item
    for size, step in sorted(place.dims, key=lambda one: abs(one[1])):
        if abs(step) < reach:
            return False
        reach += (size - 1) * abs(step)
    return True


def _are_apart(first: _Place, second: _Place) -> bool:
    """Whether the arrays are disjoint: by their spans, or by their columns within rows of one
    stride, as the parts of a fused projection are. Arrays that only a longer search could prove
    disjoint count as overlapping."""
    steps = {abs(step) for _, step in (*first.dims, *second.dims)} - {0}
    if _gap(first, second, 0):
        return True
    return any(_gap(first, second, step) for step in steps)


def _gap(first: _Place, second: _Place, step: int) -> bool:
    (low, high), (other_low, other_high) = first.span(step), second.span(step)
    if not step:
        return high <= other_low or other_high <= low
    ahead = (other_low - low) % step
    return high - low <= ahead and ahead + (other_high - other_low) <= step
