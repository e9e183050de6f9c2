"""Broadcasts an array over more leading dimensions without a copy, for the functions around
operators on rows; and fills an ``out`` of another shape than the operator writes.

In: an array of any package. Out: a view. Read next: ops/norm/api.py, ops/rope/api.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._given import check_writable, functions_of
from .errors import ShapeMismatchError


def spread(array: Any, shape: tuple[int, ...]) -> Any:
    """``array`` broadcast to ``shape``: leading dimensions that are missing, and those of size 1,
    get stride 0."""
    if tuple(array.shape) == tuple(shape):
        return array
    if hasattr(array, "expand"):
        return array.expand(shape)
    return functions_of(array).broadcast_to(array, shape)


def table_of(table: Any, name: str, tokens: tuple[int, ...], op: str) -> Any:
    """The table broadcast over all leading dimensions of x, as a view."""
    found = shape = tuple(table.shape)
    if shape[:-1] == tokens and shape:
        return table
    if not _is_of(shape, tokens):
        if len(shape) > 1 and shape[-2] == 1:
            shape = (*shape[:-2], shape[-1])
            table = table.reshape(shape)
        if not shape or not _spreads(shape[:-1], tokens):
            expected = f"[S, D], [B, S, D], or these with a 1 before D, for tokens {tokens}"
            raise ShapeMismatchError.from_library(
                f"{op}: {name} has another shape; expected {expected}, got {found}",
                op, name, expected, str(found),
            )  # fmt: skip
    return spread(table, (*tokens, shape[-1]))


def without_heads(table: Any, tokens: tuple[int, ...]) -> Any:
    """The table without its head dimension, a 1 before D."""
    shape = tuple(table.shape)
    if len(shape) < 2 or shape[-2] != 1 or _is_of(shape, tokens):
        return table
    return table.reshape((*shape[:-2], shape[-1]))


def _is_of(shape: tuple[int, ...], tokens: tuple[int, ...]) -> bool:
    """Whether the table's dimensions before D, as many as there are, match those of the tokens. A 1
    before D is S if S is 1, else the head dimension."""
    if len(shape) > 1 and shape[-2] == 1 and (not tokens or tokens[-1] != 1):
        return False
    return bool(shape) and _spreads(shape[:-1], tokens)


def _spreads(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether ``shape`` broadcasts to ``wanted``."""
    missing = len(wanted) - len(shape)
    if missing < 0:
        return False
    for have, want in zip(shape, wanted[missing:], strict=True):
        if have != 1 and have != want:
            return False
    return True


def doubled(table: Any) -> Any:
    """A table of D/2 columns, which both channels of a pair share, as one of D columns."""
    if hasattr(table, "new_empty"):
        import torch

        return torch.cat((table, table), -1)
    return functions_of(table).concatenate((table, table), -1)


def beside(like: Any, shape: tuple[Any, ...] | None = None) -> Any:
    """An uninitialised array of the same package and dtype; by default also of the same shape."""
    wanted = tuple(like.shape) if shape is None else shape
    if hasattr(like, "new_empty"):
        return like.new_empty(wanted)
    return functions_of(like).empty(wanted, like.dtype)


def _has_view(shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether elements at these strides have a view as ``wanted``, of as many elements."""
    if not shape or 0 in shape:
        return True
    place = len(wanted) - 1  # the next of its dimensions, from the last
    run, taken, step = 1, 1, strides[-1]  # elements `step` apart, and those that dimensions cover
    for d in range(len(shape) - 1, -1, -1):
        run *= shape[d]
        if d > 0 and (shape[d - 1] == 1 or strides[d - 1] == run * step):
            continue
        while place >= 0 and (taken < run or wanted[place] == 1):
            taken *= wanted[place]
            place -= 1
        if taken != run:
            return False
        if d > 0:
            run, taken, step = 1, 1, strides[d - 1]
    return place < 0


def reshaped(out: Any, shape: tuple[int, ...]) -> Any:
    """A view of ``out`` as ``shape``; None if its layout allows only a copy."""
    if hasattr(out, "new_empty"):
        try:
            # Not left to the exception of `view`: torch 2.11 cannot trace one.
            return out.view(shape) if _has_view(out.shape, out.stride(), shape) else None
        except RuntimeError:
            return None
    view = out.reshape(shape)
    shares = functions_of(out).may_share_memory
    return view if shares(view, out) else None


def into(out: Any, shape: tuple[int, ...], call: Callable[[Any], Any], op: str = "") -> Any:
    """Returns ``out``, filled by ``call`` through a view of it as ``shape``, or through a temporary
    array if there is no such view. The temporary has out's dtype and device, so that the operator
    judges it as it would judge out."""
    view = reshaped(out, shape)
    if view is not None:
        call(view)
        return out
    check_writable(op, "out", out)
    made = beside(out, shape)
    call(made)
    out[...] = made.reshape(tuple(out.shape))
    return out
