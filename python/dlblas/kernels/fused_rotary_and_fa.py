"""``dlblas.kernels.fused_rotary_and_fa``: rotation of heads, then attention without a mask, with
gradients.

In: torch tensors. Out: a torch tensor. Read next: ../../../ops/attention/api.py.
"""

from __future__ import annotations

from typing import Any

import torch

from .._arguments import hinted
from .._faces import flash_attention, fused_rotary_and_fa
from .._functions import FUNCTIONS
from .._given import grad_error, need
from .._spread import doubled

__all__ = ["FusedRotaryAndFA"]

_rotate = FUNCTIONS["apply_rotary_pos_emb"].call


class _Rotation(torch.autograd.Function):
    """Heads turned by tables, which have no gradient; back by the transposed rotation."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
        ctx.save_for_backward(cos, sin)
        made: tuple[Any, Any] = _rotate(q.detach(), k.detach(), cos, sin)
        return made

    @staticmethod
    def backward(ctx: Any, dq: Any, dk: Any) -> tuple[Any, ...]:
        cos, sin = ctx.saved_tensors
        return *_rotate(dq, dk, cos, -sin.roll(sin.shape[-1] // 2, -1)), None, None


class FusedRotaryAndFA:
    """Called by ``apply``, as an autograd function is."""

    @staticmethod
    @hinted
    def apply(q: Any, k: Any, v: Any, cos: Any, sin: Any) -> Any:
        """``dlblas.fused_rotary_and_fa``: q ``[B, S, H, D]``, k ``[B, S, Hkv, D]``,
        v ``[B, S, Hkv, Dv]``, cos and sin ``[B, S, D]`` -> ``[B, S, H, Dv]``.

        q and k are not modified. q, k and v have gradients, tables have none. Without gradients it
        is that function; with them the rotation is a launch of its own, whose results are kept.
        Dtypes, numerics and errors are those of ``dlblas.fused_rotary_and_fa``.
        """
        need("FusedRotaryAndFA.apply", q=q, k=k, v=v, cos=cos, sin=sin)
        if not (torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))):
            return fused_rotary_and_fa(q, k, v, cos, sin)
        for name, table in (("cos", cos), ("sin", sin)):
            if table.requires_grad:
                raise grad_error("FusedRotaryAndFA.apply", name)
        cos, sin = (t.squeeze(-2) if t.ndim == 4 else t for t in (cos, sin))
        tokens = q.shape[:-2]
        cos, sin = (doubled(t) if 2 * t.shape[-1] == q.shape[-1] else t for t in (cos, sin))
        cos, sin = (t.expand(*tokens, t.shape[-1]) for t in (cos, sin))
        turned_q, turned_k = _Rotation.apply(q, k, cos, sin)
        return flash_attention(turned_q, turned_k, v)
