"""The gradients of ``dlblas.partial_rotary_emb``.

In: torch tensors. Out: torch tensors. Used by: ops/rope/api.py, where a gradient is asked for, and
kernels/partial_rotary_emb.py, which has its name. Read next: _latent_heads.py.
"""

from __future__ import annotations

from typing import Any

import torch

from ._functions import FUNCTIONS
from ._given import grad_error
from ._latent_heads import turned_heads

_backward = FUNCTIONS["partial_rotary_heads_backward"].call
_sum = FUNCTIONS["partial_rotary_heads_sum"].call


class PartialRotaryEmb(torch.autograd.Function):
    """``PartialRotaryEmb.apply(q, k_pe, kv, cos, sin)``: ``dlblas.partial_rotary_emb``.

    Gradients of q, k_pe and kv in two launches; tables have none.
    """

    @staticmethod
    def forward(ctx: Any, q: Any, k_pe: Any, kv: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
        for name, table in (("cos", cos), ("sin", sin)):
            if table.requires_grad:
                raise grad_error("PartialRotaryEmb.apply", name)
        ctx.save_for_backward(cos, sin)
        ctx.values = kv.shape[-1] - (q.shape[-1] - cos.shape[-1])
        return turned_heads(q.detach(), k_pe.detach(), kv.detach(), cos, sin)

    @staticmethod
    def backward(ctx: Any, dq_out: Any, dkv_out: Any) -> tuple[Any, ...]:
        cos, sin = (t.expand(*dq_out.shape[:-2], t.shape[-1]) for t in ctx.saved_tensors)
        dk, dv = dkv_out.unbind(-3)
        dq, dkv = _backward(dq_out, dk, dv, cos, sin, ctx.values)
        dk_pe = _sum(dk[..., dk.shape[-1] - cos.shape[-1] :], cos, sin)
        return dq, dk_pe.unsqueeze(-2), dkv, None, None
