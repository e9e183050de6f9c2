"""``dlblas.kernels.fused_rotary_and_fa``: rotation of heads, then attention without a mask, with
gradients.

In: torch tensors; without gradients, arrays of any package. Out: an array like q. Read next:
../../../ops/attention/api.py.
"""

from __future__ import annotations

from typing import Any

import torch

from .._arguments import hinted
from .._faces import flash_attention, fused_rotary_and_fa
from .._functions import FUNCTIONS
from .._given import asks_for_gradients, need
from .._spread import table_of
from ..errors import Error, renamed

__all__ = ["FusedRotaryAndFA"]

_NAME = "FusedRotaryAndFA.apply"
_rotate = FUNCTIONS["apply_rotary_pos_emb"].call


class _Rotation(torch.autograd.Function):
    """Rotates heads by tables, which get no gradient; backward is the transposed rotation."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
        ctx.save_for_backward(cos, sin)
        made: tuple[Any, Any] = _rotate(q.detach(), k.detach(), cos, sin)
        return made

    @staticmethod
    def backward(ctx: Any, dq: Any, dk: Any) -> tuple[Any, ...]:
        cos, sin = ctx.saved_tensors
        turn = _Rotation.apply if torch.is_grad_enabled() else _rotate  # linear: differentiable
        # A table of D/2 columns serves both channels of a pair, so there is nothing to exchange.
        other = sin if 2 * sin.shape[-1] == dq.shape[-1] else sin.roll(sin.shape[-1] // 2, -1)
        return *turn(dq, dk, cos, -other), None, None


def _attended(q: Any, k: Any, v: Any, cos: Any, sin: Any) -> Any:
    if not asks_for_gradients(q, k, v) or cos.requires_grad or sin.requires_grad:
        return fused_rotary_and_fa(q, k, v, cos, sin)
    tokens = tuple(q.shape[:-2])
    cos, sin = (
        table_of(table, name, tokens, _NAME) for name, table in (("cos", cos), ("sin", sin))
    )
    turned_q, turned_k = _Rotation.apply(q, k, cos, sin)
    return flash_attention(turned_q, turned_k, v)


class FusedRotaryAndFA:
    """Called through ``apply``, like an autograd function."""

    @staticmethod
    @hinted
    def apply(q: Any, k: Any, v: Any, cos: Any, sin: Any) -> Any:
        """``dlblas.fused_rotary_and_fa``: q ``[B, S, H, D]``, k ``[B, S, Hkv, D]``,
        v ``[B, S, Hkv, Dv]``, cos and sin ``[B, S, D]`` -> ``[B, S, H, Dv]``.

        q and k are not modified; all five have gradients. If only q, k and v need gradients, as in
        training, the rotation is a separate launch whose results are kept. Otherwise this is
        ``dlblas.fused_rotary_and_fa``, which recomputes o for a table's gradient. Dtypes, numerics
        and errors are those of that function; with gradients all five must be torch tensors.
        """
        need(_NAME, q=q, k=k, v=v, cos=cos, sin=sin)
        try:
            return _attended(q, k, v, cos, sin)
        except Error as error:  # of the functions within, whose arguments have the same names
            if error.op == _NAME:
                raise
            raise renamed(error, _NAME, error.argument) from error
