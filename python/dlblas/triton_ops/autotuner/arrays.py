"""A kernel's arguments and results, as real-valued tensors that can be kept and compared.

In: any value; lists, tuples and mappings are traversed. Out: the tensors and NumPy arrays in it:
arguments as views of their memory, results as values. NumPy is not imported here: if it is not
loaded, nothing can be an array. Read next: check.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in _leaves(value) if isinstance(leaf, torch.Tensor))


def memory_in(arguments: Any) -> Iterator[torch.Tensor]:
    """Yields views of the arguments' memory: a write to a view writes to the argument."""
    for leaf in _leaves(arguments):
        if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided:
            # A conjugate may be a view without memory of its own: yields what it is a view of.
            memory = leaf.detach().conj() if leaf.is_conj() else leaf.detach()
            yield torch.view_as_real(memory) if memory.is_complex() else memory
        elif _is_numpy(leaf, "ndarray") and leaf.flags.writeable and _has_bytes(leaf):
            ahead = [slice(None, None, -1 if step < 0 else 1) for step in leaf.strides]
            # The ellipsis keeps it an array, also without dimensions.
            plain = leaf.view(_numpy().ndarray)[tuple([*ahead, ...])]
            yield _real(torch.from_numpy(plain if _has_tensor(plain) else _bytes(plain)))
        # The remaining leaves cannot be written to, or hold Python objects.


def results_in(value: Any) -> Iterator[torch.Tensor]:
    """Yields values, including numbers. An array of a type that torch lacks is yielded as its
    type's name and its values, in a wider type or as bytes."""
    for leaf in _leaves(value):
        if isinstance(leaf, torch.Tensor):
            if leaf.layout is torch.strided:
                yield _real(leaf.detach())
        elif _is_numpy(leaf, "ndarray") or _is_numpy(leaf, "generic"):
            yield from _of_numpy(_numpy().array(leaf, order="C"))
        elif isinstance(leaf, (bool, int, float, complex)):
            yield _real(torch.tensor(leaf))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def _real(value: torch.Tensor) -> torch.Tensor:
    # A conjugate has no view as real numbers, so it is copied.
    value = value.resolve_conj().resolve_neg()
    return torch.view_as_real(value) if value.is_complex() else value


def _numpy() -> Any:
    return sys.modules.get("numpy")


def _is_numpy(value: Any, name: str) -> bool:
    return "numpy" in sys.modules and isinstance(value, getattr(_numpy(), name))


def _has_bytes(array: Any) -> bool:
    return bool(array.dtype.itemsize and not array.dtype.hasobject)


def _has_tensor(array: Any) -> bool:
    dtype = array.dtype
    if not dtype.isnative or any(step % dtype.itemsize for step in array.strides):
        return False  # the latter: a field of packed records
    widest = {"b": 1, "i": 8, "u": 8, "f": 8, "c": 16}  # no long double
    return bool(dtype.itemsize <= widest.get(dtype.kind, 0))


def _bytes(array: Any) -> Any:
    return array[..., None].view("u1")


def _of_numpy(array: Any) -> Iterator[torch.Tensor]:
    """The values of an array that has no other owner."""
    if not _has_bytes(array):
        yield torch.tensor(array.shape)
        yield from results_in(array.ravel().tolist())
        return
    if not _has_tensor(array):
        yield torch.tensor(list(str(array.dtype).encode()))
        wide = {"f": "f8", "c": "c16", "i": "=i8", "u": "=u8"}.get(array.dtype.kind)
        array = array.astype(wide) if wide else _bytes(array)
    yield _real(torch.from_numpy(array))
