"""What ``dlblas.partial_rotary_emb`` computes, without gradients: heads before latent attention.

In: arrays of any package that the operators take. Out: results of partial_rotary_heads, in one
launch. Used by: ops/rope/api.py, _partial_rotary.py. Read next: ops/rope/partial_rotary_heads/.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ._functions import FUNCTIONS
from ._spread import table_of
from .errors import Error, ShapeMismatchError

_OP = "partial_rotary_emb"
_partial_rotary_heads = FUNCTIONS["partial_rotary_heads"].call


def turned_heads(
    q: Any, k_pe: Any, kv: Any, cos: Any, sin: Any, out: Any = None
) -> tuple[Any, Any]:
    """``(q_out, kv_out)``, or ``out``, which is written."""
    tokens = tuple(q.shape[:-2])
    turned = int(cos.shape[-1])
    if tuple(k_pe.shape) != (*tokens, 1, turned):
        raise _wrong("k_pe", f"{(*tokens, 1, turned)}", tuple(k_pe.shape))
    shape = (*tokens, 2, *q.shape[-2:])
    if out is None:
        out = tuple(_empty(q, size) for size in (tuple(q.shape), shape))
    q_out, kv_out = out
    if tuple(kv_out.shape) != shape:
        raise _wrong("out", f"a second one of {shape}", tuple(kv_out.shape))
    _partial_rotary_heads(
        q, k_pe.reshape((*tokens, turned)), kv, table_of(cos, "cos", tokens, _OP),
        table_of(sin, "sin", tokens, _OP), out=(q_out, kv_out[..., 0, :, :], kv_out[..., 1, :, :]),
    )  # fmt: skip
    return q_out, kv_out


def _empty(like: Any, shape: tuple[int, ...]) -> Any:
    if hasattr(like, "new_empty"):
        return like.new_empty(shape)
    return import_module(type(like).__module__).empty(shape, like.dtype)


def _wrong(argument: str, expected: str, got: Any) -> Error:
    return ShapeMismatchError.from_library(
        f"{_OP}: {argument} has another shape; expected {expected}, got {got}",
        _OP, argument, expected, str(got),
    )  # fmt: skip
