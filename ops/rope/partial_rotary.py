"""The gradients of ``dlblas.partial_rotary_emb``.

In: torch tensors. Out: torch tensors. Used by: api.py, if a gradient is needed, and
python/dlblas/kernels/partial_rotary_emb.py, which exports the class. Read next: latent_heads.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from .._functions import FUNCTIONS
from .._given import grad_error, no_array
from .rope_latent_heads import tables_of, turned_by

_OP = "PartialRotaryEmb.apply"
_backward = FUNCTIONS["partial_rotary_heads_backward"].call
_sum = FUNCTIONS["partial_rotary_heads_sum"].call


class PartialRotaryEmb(torch.autograd.Function):
    """``PartialRotaryEmb.apply(q, k_pe, kv, cos, sin)``: ``dlblas.partial_rotary_emb``.

    Computes the gradients of q, k_pe and kv in two launches; the tables have none.
    """

    @staticmethod
    def forward(ctx: Any, q: Any, k_pe: Any, kv: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
        named = {"q": q, "k_pe": k_pe, "kv": kv, "cos": cos, "sin": sin}
        for name, value in named.items():
            if not isinstance(value, torch.Tensor):
                raise no_array(_OP, name, value, "a torch tensor")
        for name in ("cos", "sin"):
            if named[name].requires_grad:
                raise grad_error(_OP, name)
        cos, sin = tables_of(q, k_pe, cos, sin)
        ctx.save_for_backward(cos, sin)
        results = turned_by(q.detach(), k_pe.detach(), kv.detach(), cos, sin)
        ctx.rotated = k_pe.shape[-1]
        ctx.values = kv.shape[-1] - (q.shape[-1] - ctx.rotated)
        return results

    @staticmethod
    def backward(ctx: Any, dq_out: Any, dkv_out: Any) -> tuple[Any, ...]:
        if not torch.is_grad_enabled():
            return PartialRotaryEmb.gradients(ctx, dq_out, dkv_out)
        from ..torch._autograd import once

        make = partial(PartialRotaryEmb.gradients, ctx, dq_out, dkv_out)
        return once("partial_rotary_emb", make, (dq_out, dkv_out))

    @staticmethod
    def gradients(ctx: Any, dq_out: Any, dkv_out: Any) -> tuple[Any, ...]:
        cos, sin = ctx.saved_tensors
        dk, dv = dkv_out.unbind(-3)
        dq, dkv = _backward(dq_out, dk, dv, cos, sin, ctx.values, ctx.rotated // 2)
        dk_pe = _sum(dk[..., dk.shape[-1] - ctx.rotated :], cos, sin)
        return dq, dk_pe.unsqueeze(-2), dkv, None, None
