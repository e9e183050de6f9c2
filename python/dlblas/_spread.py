"""An array over more leading dimensions, without a copy: what sugar gives to operators on rows; and
results that are given as another shape than the operator writes.

In: an array of any package. Out: a view. Read next: ops/norm/api.py, ops/rope/api.py.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from .errors import ShapeMismatchError


def spread(array: Any, shape: tuple[int, ...]) -> Any:
    """``array`` as ``shape``: dimensions of size 1, or missing in front, have stride 0."""
    if tuple(array.shape) == tuple(shape):
        return array
    if hasattr(array, "expand"):
        return array.expand(shape)
    return import_module(type(array).__module__).broadcast_to(array, shape)


def table_of(table: Any, name: str, tokens: tuple[int, ...], op: str) -> Any:
    """The table for all leading dimensions of x, without a copy."""
    shape = tuple(table.shape)
    if len(shape) == len(tokens) + 2 and shape[-2] == 1:
        shape = (*shape[:-2], shape[-1])
        table = table.reshape(shape)
    wanted = (*tokens, shape[-1])
    if shape == wanted:
        return table
    ahead = (1,) * (len(wanted) - len(shape)) + shape
    if len(ahead) != len(wanted) or any(
        have not in (1, want) for have, want in zip(ahead, wanted, strict=True)
    ):
        expected = f"[S, D], [B, S, D] or [B, S, 1, D] for tokens {tokens}"
        raise ShapeMismatchError.from_library(
            f"{op}: {name} has another shape; expected {expected}, got {shape}",
            op, name, expected, str(shape),
        )  # fmt: skip
    return spread(table, wanted)


def doubled(table: Any) -> Any:
    """A table of D/2 columns, which both channels of a pair read, as one of D."""
    if hasattr(table, "new_empty"):
        import torch

        return torch.cat((table, table), -1)
    return import_module(type(table).__module__).concatenate((table, table), -1)


def reshaped(out: Any, shape: tuple[int, ...]) -> Any:
    """``out`` as ``shape``, the same memory; None where it lies so that only a copy would do."""
    if hasattr(out, "new_empty"):
        try:
            return out.view(shape)
        except RuntimeError:
            return None
    view = out.reshape(shape)
    shares = import_module(type(out).__module__).may_share_memory
    return view if shares(view, out) else None


def into(out: Any, shape: tuple[int, ...], call: Callable[[Any], Any]) -> Any:
    """``out``, filled by ``call`` of it as ``shape``; by way of a copy where it lies otherwise."""
    view = reshaped(out, shape)
    if view is None:
        out[...] = call(None).reshape(out.shape)
    else:
        call(view)
    return out
