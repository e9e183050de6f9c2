"""The gradient of swiglu_oai_and_mul, in torch's operators, in f32: with ``s = σ(alpha · g)``, ``dg
= dy · (u + 1) · s · (1 + alpha · g · (1 − s))`` and ``du = dy · g · s``, 0 where g or u was
clamped, and at the limit.

Read next: swiglu_oai_and_mul.py (AUTOGRAD), ../../../python/dlblas/torch/_autograd.py.
"""

from __future__ import annotations

import torch


def swiglu_oai_and_mul(
    x: torch.Tensor, alpha: float, limit: float, interleaved: bool, dy: torch.Tensor
) -> tuple[torch.Tensor]:
    wide = x.float()
    gate, up = (wide[..., ::2], wide[..., 1::2]) if interleaved else wide.chunk(2, -1)
    g, u = gate.clamp(max=limit), up.clamp(-limit, limit)
    s = torch.sigmoid(alpha * g)
    dg = dy * (u + 1) * s * (1 + alpha * g * (1 - s)) * (gate < limit)
    du = dy * g * s * (up.abs() < limit)
    pair = (dg.to(x.dtype), du.to(x.dtype))
    return (torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1),)


GRADIENTS = {"swiglu_oai_and_mul": swiglu_oai_and_mul}
