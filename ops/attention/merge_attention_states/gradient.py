"""The gradient of merge_attention_states, in torch's operators and f32.

With shares ``p_i = w_i / (w_1 + w_2)``, ``g = dout`` and ``d = Σ_D g · (o_1 − o_2)``:
``do_i = p_i · g``, ``dlse_1 = p_1 · (dlse + p_2 · d)``, ``dlse_2 = p_2 · (dlse − p_1 · d)``. A
state that the operator ignores gets zeros, whatever its o holds. Read next:
merge_attention_states.py (AUTOGRAD), ../../../python/dlblas/torch/_autograd.py.
"""

from __future__ import annotations

import torch

_T = torch.Tensor


def merge_attention_states(
    o1: _T, lse1: _T, o2: _T, lse2: _T, dout: _T | None, dlse: _T | None
) -> tuple[_T, _T, _T, _T]:
    """Gradients of o1, lse1, o2 and lse2."""
    most = torch.maximum(lse1, lse2)
    weights = torch.exp(torch.stack((lse1, lse2)) - torch.where(most == -torch.inf, 0.0, most))
    weights = torch.where(weights < 2.0**-126, 0.0, weights)
    total = weights.sum(0)
    shares = weights / torch.where(total == 0, 1.0, total)
    g = torch.zeros_like(o1) if dout is None else dout
    along = (g.float() * torch.where(shares[..., None] == 0, 0.0, torch.stack((o1, o2)))).sum(-1)
    d, of_lse = along[0] - along[1], 0.0 if dlse is None else dlse
    do1, do2 = (shares[..., None] * g).to(o1.dtype)
    return do1, shares[0] * (of_lse + shares[1] * d), do2, shares[1] * (of_lse - shares[0] * d)


GRADIENTS = {"merge_attention_states": merge_attention_states}
