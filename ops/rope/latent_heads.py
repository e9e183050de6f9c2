"""The forward computation of ``dlblas.partial_rotary_emb``, without gradients: heads before latent
attention.

In: arrays of any package that the operators take. Out: results of partial_rotary_heads, in one
launch. Used by: api.py, partial_rotary.py. Read next: partial_rotary_heads/.
"""

from __future__ import annotations

from typing import Any

from .._functions import FUNCTIONS
from .._given import no_array
from .._spread import beside, table_of
from ..errors import ArgumentError, Error, ShapeMismatchError, UnsupportedDtypeError

_OP = "partial_rotary_emb"
_partial_rotary_heads = FUNCTIONS["partial_rotary_heads"].call


def turned_heads(
    q: Any, k_pe: Any, kv: Any, cos: Any, sin: Any, out: Any = None
) -> tuple[Any, Any]:
    """``(q_out, kv_out)``: new arrays, or those of ``out``."""
    return turned_by(q, k_pe, kv, *tables_of(q, k_pe, cos, sin), out)


def turned_by(q: Any, k_pe: Any, kv: Any, cos: Any, sin: Any, out: Any = None) -> tuple[Any, Any]:
    """As ``turned_heads``, with the tables that ``tables_of`` returns."""
    *tokens, heads, width = q.shape
    shape = (*tokens, 2, heads, width)
    q_out, kv_out = (beside(q), beside(q, shape)) if out is None else _places(q, shape, out)
    _partial_rotary_heads(
        q, k_pe.reshape((*tokens, k_pe.shape[-1])), kv, cos, sin,
        out=(q_out, kv_out[..., 0, :, :], kv_out[..., 1, :, :]),
    )  # fmt: skip
    return q_out, kv_out


def tables_of(q: Any, k_pe: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
    """cos and sin as views ``[*T, Dr]`` or ``[*T, Dr/2]``."""
    tokens, shape = tuple(q.shape[:-2]), tuple(k_pe.shape)
    if len(q.shape) < 2:
        raise _wrong("q", "[*T, H, Dn + Dr]", tuple(q.shape))
    if shape[:-1] != (*tokens, 1):
        expected = f"[*T, 1, Dr] with q's leading dimensions {tokens}"
        raise _wrong("k_pe", expected, shape)
    width = int(shape[-1])
    for name, table in (("cos", cos), ("sin", sin)):
        columns = table.shape[-1] if len(table.shape) else 0
        if columns != width and 2 * columns != width:
            expected = f"a last dimension of Dr = {width}, as k_pe has, or of Dr/2"
            raise _wrong(name, expected, tuple(table.shape))
    return table_of(cos, "cos", tokens, _OP), table_of(sin, "sin", tokens, _OP)


def _places(q: Any, shape: tuple[Any, ...], out: Any) -> tuple[Any, Any]:
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        expected = "a tuple of 2, in result order"
        got = f"{len(out)}" if isinstance(out, (tuple, list)) else type(out).__name__
        raise ArgumentError.from_library(
            f"{_OP}: out is not a place for each result; expected {expected}, got {got}",
            _OP, "out", expected, got,
        )  # fmt: skip
    for i, (name, place, size) in enumerate(
        (("q_out", out[0], tuple(q.shape)), ("kv_out", out[1], shape))
    ):
        shown, argument = f"out[{i}] ({name})", f"out[{i}]"
        if not hasattr(place, "shape"):
            raise no_array(_OP, argument, place)
        if tuple(place.shape) != size:
            raise _wrong(argument, f"{size}", tuple(place.shape), shown)
        if place.dtype != q.dtype:
            expected, got = f"{q.dtype} (like q)", f"{place.dtype}"
            raise UnsupportedDtypeError.from_library(
                f"{_OP}: {shown} has dtype {got}; expected {expected}, got {got}",
                _OP, argument, expected, got,
            )  # fmt: skip
    return out[0], out[1]


def _wrong(argument: str, expected: str, got: Any, shown: str = "") -> Error:
    return ShapeMismatchError.from_library(
        f"{_OP}: {shown or argument} has another shape; expected {expected}, got {got}",
        _OP, argument, expected, str(got),
    )  # fmt: skip
