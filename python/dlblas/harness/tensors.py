"""One tensor of a case in its own memory: guard zone, elements and the gaps between them, guard
zone.

In: shape, dtype, layout. Out: ``array``, the view that a call gets, and whether anything but its
elements was written. Guards and gaps hold 0xff, which reads as NaN: using them makes a result
wrong, and writing to them is detected. Read next: run.py.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

GUARD_BYTE = 0xFF
# Guard bytes on each side: one tile of 256 rows of 256 two-byte elements. No kernel sees a copy, so
# its guards need only keep copies apart.
_GUARD, _COPY_GUARD = 1 << 17, 256
_SATURATES = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
_FAR = 2**31 + 11  # elements between two rows of far_rows
_NORESERVE = 0x4000  # Linux: untouched pages cost nothing

KINDS = (
    "contiguous", "row_strided", "mixed_leading", "transposed", "broadcast", "broadcast_cols",
    "negative", "negative_cols", "misaligned1", "misaligned2", "misaligned4", "misaligned8",
    "far_rows", "ones", "heads_first",
)  # fmt: skip
# A written tensor must address each element once.
OUTPUT_KINDS = tuple(kind for kind in KINDS if not kind.startswith("broadcast"))


class _Plan(NamedTuple):
    strides: tuple[int, ...]  # in elements
    misalignment: int  # bytes from a cache line's start


def _packed(shape: Sequence[int]) -> list[int]:
    strides, step = [0] * len(shape), 1
    for i in reversed(range(len(shape))):
        strides[i] = step
        step *= max(1, shape[i])
    return strides


def _plan(kind: str, shape: Sequence[int]) -> _Plan:
    rank, strides = len(shape), _packed(shape)
    if kind.startswith("misaligned"):
        return _Plan(tuple(strides), int(kind.removeprefix("misaligned")))
    if rank < 2 or kind == "contiguous":  # vectors stay as they are: only matrices have rows
        return _Plan(tuple(strides), 0)
    if kind == "row_strided":  # an odd pitch, so that rows start at every alignment
        strides = _packed([*shape[:-1], shape[-1] + 5])
    elif kind == "mixed_leading":  # no single pitch walks all rows
        strides = _packed([*shape[:-2], shape[-2] + 1, shape[-1] + 3])
    elif kind == "heads_first" and rank > 2:  # [B, S, H, D] as a view of [B, H, S, D]
        strides[-2], strides[-3] = max(1, shape[-3]) * strides[-2], strides[-2]
    elif kind == "transposed":
        strides[-1], strides[-2] = max(1, shape[-2]), 1
    elif kind == "broadcast":
        strides[0] = 0
    elif kind == "broadcast_cols":
        strides[-1] = 0
    elif kind == "negative":
        strides[0] = -strides[0]
    elif kind == "negative_cols":
        strides[-1] = -1
    elif kind == "far_rows":
        strides[-2] = _FAR
        for i in reversed(range(rank - 2)):
            strides[i] = strides[i + 1] * max(1, shape[i + 1])
    return _Plan(tuple(strides), 0)


class Guarded:
    """A tensor between guard zones."""

    def __init__(self, shape: Sequence[int], dtype: Any, kind: str, guard: int = _GUARD) -> None:
        self.dtype = np.dtype(dtype)
        self.shape, self.kind = tuple(shape), kind
        plan = _plan(kind, self.shape)
        size = self.dtype.itemsize
        reach = [(n - 1) * s for n, s in zip(self.shape, plan.strides, strict=True) if n > 0]
        low = sum(r for r in reach if r < 0) * size
        high = sum(r for r in reach if r > 0) * size
        length = 2 * guard + 64 + plan.misalignment + high - low + size
        if kind == "far_rows" and self.shape and min(self.shape) > 0:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
            self.memory = np.frombuffer(mmap.mmap(-1, length, flags=flags), np.uint8)
        else:
            self.memory = np.full(length, GUARD_BYTE, np.uint8)
        start = -self.memory.ctypes.data % 64 + plan.misalignment + guard - low
        steps = tuple(s * size for s in plan.strides)
        self.array: Any = np.ndarray(self.shape, self.dtype, self.memory, start, steps)
        self._bytes: Any = np.ndarray(
            (*self.shape, size), np.uint8, self.memory, start, (*steps, 1)
        )
        self._start, self._steps = start, steps
        if kind == "far_rows":
            for zone in self._zones():
                zone[:] = GUARD_BYTE

    @property
    def argument(self) -> Any:
        """The tensor as a call gets it."""
        return self.array

    def part(self, shape: Sequence[int]) -> Any:
        """The leading part of this shape, with the strides of the whole tensor."""
        return self.array[tuple(slice(n) for n in shape)]

    def push(self) -> None:
        """Before a call: copies ``array`` to the memory that the call sees."""

    def pull(self) -> None:
        """After a call: copies its results back to ``array`` and ``memory``."""

    def _zones(self) -> list[Any]:
        """far_rows: the guard zone before and after each row; the rest of the memory stays
        untouched."""
        zones = []
        if min(self.shape, default=0) > 0:
            width = self.shape[-1] * self.dtype.itemsize
            for index in np.ndindex(*self.shape[:-1]):
                at = self._start + sum(i * s for i, s in zip(index, self._steps[:-1], strict=True))
                zones += [self.memory[at - 64 : at], self.memory[at + width : at + width + 64]]
        return zones

    def poison(self, pattern: int) -> None:
        self._bytes[...] = pattern

    def holding(self, pattern: int) -> Any:
        """A row-major mask of the elements whose bytes all equal ``pattern``."""
        return (self._bytes == pattern).all(-1).reshape(-1)

    def guards_intact(self) -> bool:
        if self.kind == "far_rows" and min(self.shape, default=0) > 0:
            return all(bool((zone == GUARD_BYTE).all()) for zone in self._zones())
        kept = self._bytes.copy()
        self._bytes[...] = GUARD_BYTE
        intact = bool((self.memory == GUARD_BYTE).all())
        self._bytes[...] = kept
        return intact

    def bits(self) -> bytes:
        """The elements' bytes, row-major."""
        return bytes(self._bytes.tobytes())

    def assign(self, values: Any) -> None:
        most = _SATURATES.get(self.dtype.name)
        if most:  # the cast makes NaN of what is too large
            values = np.where(np.isnan(values), values, np.clip(values, -most, most))
        with np.errstate(over="ignore", invalid="ignore"):
            self.array[...] = values.astype(self.dtype)

    def copy(self) -> Guarded:
        # Always on the host, even if this one is on a device.
        other = Guarded(self.shape, self.dtype, self.kind, _COPY_GUARD)
        other.array[...] = self.array
        return other

    def restore(self, pristine: Guarded) -> None:
        self.array[...] = pristine.array
