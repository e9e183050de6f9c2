"""The normalised shape of modules that take torch's argument and normalise one dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ShapeMismatchError

if TYPE_CHECKING:
    import torch


def last_dimension(
    module: str, normalized_shape: int | tuple[int] | list[int] | torch.Size
) -> tuple[int, ...]:
    """The size of x's last dimension, as a tuple of one."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if len(shape) != 1:
        raise ShapeMismatchError.from_library(
            f"{module}: normalized_shape has {len(shape)} dimensions; expected 1, "
            f"got {shape}; flatten the normalised dimensions of x into its last",
            module, "normalized_shape", "1", str(shape),
        )  # fmt: skip
    return shape
