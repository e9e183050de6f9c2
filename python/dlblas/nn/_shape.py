"""Sizes of modules, checked when the module is constructed, not at its first call; and torch's
``normalized_shape`` for modules that normalise one dimension."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import TYPE_CHECKING, Any

from .._given import integer
from ..errors import ArgumentError, ArgumentTypeError, ShapeMismatchError

if TYPE_CHECKING:
    import torch


_MAX_SIZE = 1 << 56  # the library's bound


def check_sizes(module: str, **sizes: int) -> None:
    """Raises ArgumentTypeError for a non-integer, ArgumentError for one outside 0 to 2^56."""
    for name, size in sizes.items():
        value = integer(module, name, size)
        if not 0 <= value <= _MAX_SIZE:
            expected = "a size from 0 to 2^56"
            raise ArgumentError.from_library(
                f"{module}: {name} is out of range; expected {expected}, got {value}",
                module, name, expected, str(value),
            )  # fmt: skip


def _listed(shape: Any) -> Iterable[Any]:
    return shape if isinstance(shape, (tuple, list)) else (shape,)


def last_dimension(
    module: str, normalized_shape: int | tuple[int] | list[int] | torch.Size
) -> tuple[int, ...]:
    """Checks ``normalized_shape`` and returns the size of x's last dimension as a 1-tuple."""
    try:
        shape = tuple(map(index, _listed(normalized_shape)))
    except TypeError:
        expected, got = "an integer, or a tuple of one", repr(normalized_shape)
        raise ArgumentTypeError.from_library(
            f"{module}: normalized_shape has the wrong type; expected {expected}, got {got}",
            module, "normalized_shape", expected, got,
        ) from None  # fmt: skip
    if len(shape) != 1:
        raise ShapeMismatchError.from_library(
            f"{module}: normalized_shape has {len(shape)} dimensions; expected 1, "
            f"got {shape}; flatten the normalised dimensions of x into its last",
            module, "normalized_shape", "1", str(shape),
        )  # fmt: skip
    check_sizes(module, normalized_shape=shape[0])
    return shape
