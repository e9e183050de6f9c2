"""``fused_rmsnorm_rope`` and its module under the names of Triton Fused Operators, and references
in plain torch, to read and to test against.

Read next: ops/rope/api.py (the function), ../../nn/fused_rmsnorm_rope.py (the module).
"""

from __future__ import annotations

import torch

from ..._arguments import hinted
from ..._faces import fused_rmsnorm_rope as _fused_rmsnorm_rope
from ...nn.fused_rmsnorm_rope import FusedRMSNormRoPE, widened

__all__ = [
    "FusedRMSNormRoPE",
    "fused_rmsnorm_rope",
    "fused_rmsnorm_rope_reference",
    "rmsnorm_reference",
    "rope_reference",
]


@hinted
def fused_rmsnorm_rope(
    x: torch.Tensor,
    weight: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    eps: float = 1e-6,
    num_heads: int | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """``dlblas.fused_rmsnorm_rope`` for any mix of f32, f16 and bf16, as in Triton Fused Operators:
    a weight or table with neither x's dtype nor f32 is copied to f32 at every call."""
    weight, cos, sin = widened(x, weight, cos, sin)
    y: torch.Tensor = _fused_rmsnorm_rope(x, weight, cos, sin, eps, num_heads, out=out)
    return y


@hinted
def rmsnorm_reference(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """``x · rsqrt(mean(x²) + eps) · weight`` over the last dimension, in f32, rounded to x's
    dtype."""
    wide = x.float()
    root = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * root * weight.float()).to(x.dtype)


@hinted
def rope_reference(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotates the two halves of each head as pairs, in f32, rounded to x's dtype.

    x ``[B, S, H·D]``; cos and sin ``[S, D]`` (or ``[1, S, 1, D]``). Their first ``D/2`` columns
    serve both halves: the textbook rotation if the second half of the columns repeats the first.
    """
    heads = torch.unflatten(x.float(), -1, (-1, cos.shape[-1]))
    low, high = heads.chunk(2, -1)
    c, s = (t.reshape(-1, 1, t.shape[-1])[..., : low.shape[-1]].float() for t in (cos, sin))
    return torch.cat((low * c - high * s, high * c + low * s), -1).flatten(-2).to(x.dtype)


@hinted
def fused_rmsnorm_rope_reference(
    x: torch.Tensor,
    weight: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    eps: float = 1e-6,
) -> torch.Tensor:
    """``rope_reference(rmsnorm_reference(x, weight, eps), cos, sin)``, with f32 intermediates and
    one rounding to x's dtype, as in ``fused_rmsnorm_rope``."""
    return rope_reference(rmsnorm_reference(x.float(), weight, eps), cos, sin).to(x.dtype)
