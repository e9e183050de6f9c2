"""The gradient of ``dlblas.rms_norm_linear`` with ``rope``: the transposed rotation of the
gradient's q and k columns, then the gradient of norm_linear. The projection is linear in what it
rotates, so its result is not needed.

In: torch tensors. Out: torch tensors. Used by: api.py, if a gradient is needed. Read next:
norm_linear/gradient.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch

from .._functions import FUNCTIONS
from .._given import as_matrix, grad_error
from .._spread import spread

_OP = "rms_norm_linear"
_rotate = FUNCTIONS["apply_rotary_pos_emb_"].call
_rms_norm = FUNCTIONS["rms_norm"].call
_norm_backward = FUNCTIONS["rms_norm_backward"].call
_matmul = FUNCTIONS["matmul"].call


class Heads(NamedTuple):
    """The columns that are rotated."""

    heads: int
    kv_heads: int
    width: int
    style: str


class RotatedProjection(torch.autograd.Function):
    """``apply(y, x, rms_w, weight, cos, sin, eps, heads)`` returns y, the projection that was
    computed without a gradient. Tables have none."""

    @staticmethod
    def forward(
        ctx: Any, y: Any, x: Any, rms_w: Any, weight: Any, cos: Any, sin: Any, eps: float,
        heads: Heads,
    ) -> Any:  # fmt: skip
        for i, table in enumerate((cos, sin)):
            if table.requires_grad:
                raise grad_error(_OP, f"rope[{i}]")
        ctx.save_for_backward(x, rms_w, weight, cos, sin)
        ctx.eps, ctx.heads = eps, heads
        return y.view_as(y)

    @staticmethod
    def backward(ctx: Any, dy: Any) -> tuple[Any, ...]:
        if not torch.is_grad_enabled():
            return RotatedProjection.gradients(ctx, dy)
        from ..torch._autograd import once

        make = partial(RotatedProjection.gradients, ctx, dy)
        return once(_OP, make, (dy, *ctx.saved_tensors))

    @staticmethod
    def gradients(ctx: Any, dy: Any) -> tuple[Any, ...]:
        x, rms_w, weight, cos, sin = ctx.saved_tensors
        g = as_matrix(_turned_back(dy, cos, sin, ctx.heads))
        rows, needed = as_matrix(x), ctx.needs_input_grad
        dx = drms_w = dweight = None
        if needed[1] or needed[2]:
            dx, drms_w = _norm_backward(_matmul(g, weight), rows, rms_w, None, ctx.eps)
            dx = dx.reshape(x.shape)
        if needed[3]:
            dweight = _matmul(g.t(), _rms_norm(rows, rms_w, ctx.eps))
        return None, dx, drms_w, dweight, None, None, None, None


def _turned_back(dy: Any, cos: Any, sin: Any, of: Heads) -> Any:
    """A copy of dy with the columns of q and k rotated by the transposed rotation: that of
    ``(cos, −sin)``, with the halves of the sines exchanged."""
    g = dy.clone(memory_format=torch.contiguous_format)
    tokens, turned = tuple(g.shape[:-1]), (of.heads + of.kv_heads) * of.width
    q = g[..., : of.heads * of.width].reshape((*tokens, of.heads, of.width))  # views
    k = g[..., of.heads * of.width : turned].reshape((*tokens, of.kv_heads, of.width))
    # A table of D/2 columns serves both channels of a pair, so there is nothing to exchange.
    back = -(sin if 2 * sin.shape[-1] == of.width else sin.roll(of.width // 2, -1))
    tables = (spread(table, (*tokens, table.shape[-1])) for table in (cos, back))
    halves = of.style == "interleaved_to_half"
    _rotate(q, k, *tables, style="neox" if halves else of.style)
    if halves:  # and to where they were read
        for part in (q, k):
            low, high = part.unflatten(-1, (2, -1)).unbind(-2)
            part.copy_(torch.stack((low, high), -1).flatten(-2))
    return g
