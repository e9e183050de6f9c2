"""An array over more leading dimensions, without a copy: what sugar gives to operators on rows.

In: an array of any package. Out: a view. Read next: ops/norm/api.py, ops/rope/api.py.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def spread(array: Any, shape: tuple[int, ...]) -> Any:
    """``array`` as ``shape``: dimensions of size 1, or missing in front, have stride 0."""
    if tuple(array.shape) == tuple(shape):
        return array
    if hasattr(array, "expand"):
        return array.expand(shape)
    return import_module(type(array).__module__).broadcast_to(array, shape)
