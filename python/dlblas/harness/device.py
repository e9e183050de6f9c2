"""A case's tensor on a CUDA device: the bytes of a host ``Guarded``, guards and gaps included, at
the same alignment in device memory.

In: a shape, dtype and layout. Out: ``argument``, which a call gets; ``push`` and ``pull`` copy the
bytes to the device and back, so every host check sees what the kernel did. torch provides the
memory and the copies. Read next: tensors.py, call.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .._array import Spec
from .._dtypes import name_of
from .tensors import Guarded

_ALIGN = 512  # of torch's allocator; the host's memory has less
_LARGE = 1 << 30
_AROUND = 64  # bytes on each side of a far row that are carried as well


class DeviceArray(Spec):
    """Device memory at an address, with strides and alignments that torch's own views refuse."""

    __slots__ = ()

    def __init__(
        self, address: int, shape: Sequence[int], dtype: str, steps: Sequence[int], device: str
    ) -> None:
        super().__init__(shape, dtype, None, device)
        _, code, bits, sizes, _, read_only, cuda = self._exchange
        self._exchange = (address, code, bits, sizes, tuple(steps), read_only, cuda)


class DeviceGuarded(Guarded):
    """A tensor between guard zones in device memory; ``array`` is the host's copy."""

    def __init__(self, shape: Sequence[int], dtype: Any, kind: str, device: str) -> None:
        super().__init__(shape, dtype, kind)
        import torch

        self.device, self._torch = device, torch
        length = self.memory.size
        if length > _LARGE:  # neither what earlier cases left nor other processes may fill it
            torch.cuda.empty_cache()
            if length > torch.cuda.mem_get_info(device)[0] / 2:
                raise RuntimeError("out of memory: rows too far apart for what is free")
        self._bytes_there: Any = torch.empty(length + _ALIGN, dtype=torch.uint8, device=device)
        base = self._bytes_there.data_ptr()
        # Gives the elements the same alignment as on the host.
        self._shift = (self.memory.ctypes.data - base) % _AROUND
        self._name = str(name_of(self.dtype.type))

    def __del__(self) -> None:
        if self.memory.size > _LARGE:  # torch would keep it from other allocations
            self._bytes_there = None
            self._torch.cuda.empty_cache()

    @property
    def address(self) -> int:
        """The address of the first element."""
        base: int = self._bytes_there.data_ptr()
        return base + self._shift + int(self._start)

    @property
    def argument(self) -> Any:
        return self.part(self.shape)

    def part(self, shape: Sequence[int]) -> Any:
        """The leading part of this shape, with the strides of the whole tensor."""
        return DeviceArray(self.address, shape, self._name, self._steps, self.device)

    def _pieces(self) -> Iterator[slice]:
        """The bytes to copy: all, or, for rows far apart, each row with its surroundings."""
        if self.kind != "far_rows" or min(self.shape, default=0) == 0:
            yield slice(0, self.memory.size)
            return
        width = self.shape[-1] * self.dtype.itemsize
        for index in np.ndindex(*self.shape[:-1]):
            at = self._start + sum(i * s for i, s in zip(index, self._steps[:-1], strict=True))
            yield slice(at - _AROUND, at + width + _AROUND)

    def push(self) -> None:
        for piece in self._pieces():
            there = slice(piece.start + self._shift, piece.stop + self._shift)
            host = self._torch.from_numpy(self.memory[piece])
            self._bytes_there[there].copy_(host)

    def pull(self) -> None:
        for piece in self._pieces():
            there = slice(piece.start + self._shift, piece.stop + self._shift)
            self.memory[piece] = self._bytes_there[there].cpu().numpy()
