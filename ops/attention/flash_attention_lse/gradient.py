"""The gradient of flash_attention_lse in its bias, in torch's own operators and f32.

flash_attention_backward computes the gradients of q, k and v, but never stores dS, the gradient of
the bias. It is recomputed here, one head at a time, in B·S·L f32 numbers per head, twice. Slower
than that kernel; meant for a learned bias. Read next: flash_attention_lse.py (AUTOGRAD),
../../../python/dlblas/torch/_autograd.py.
"""

from __future__ import annotations

import math

import torch


def _seen(rows: int, keys: int, causal: bool, window: int, device: torch.device) -> torch.Tensor:
    """[S, L]: which keys each query sees; query s is at key s + L − S."""
    at = torch.arange(rows, device=device)[:, None] + (keys - rows)
    key = torch.arange(keys, device=device)[None, :]
    seen = torch.ones(rows, keys, dtype=torch.bool, device=device)
    if causal:
        seen = seen & (key <= at)
    if window >= 0:
        seen = seen & (key >= at - window)
        seen = seen if causal else seen & (key <= at + window)
    return seen


def dbias(
    dout: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, o: torch.Tensor,
    lse: torch.Tensor, dlse: torch.Tensor | None, bias: torch.Tensor, causal: bool, scale: float,
    window: int, softcap: float,
) -> torch.Tensor:  # fmt: skip
    """dS = P · (dout · vᵀ − Σ dout · o + dlse), summed over the dimensions of size 1 in bias."""
    heads, group = q.shape[2], q.shape[2] // max(1, k.shape[2])
    factor = scale or 1 / math.sqrt(max(1, q.shape[3]))
    seen = _seen(q.shape[1], k.shape[1], causal, window, q.device)
    made = torch.zeros(bias.shape, dtype=torch.float32, device=bias.device)
    summed = [d for d in (0, 2) if bias.shape[d] == 1]
    for h in range(heads):
        of = h if bias.shape[1] != 1 else 0
        key, value = (t[:, :, h // group].float().transpose(1, 2) for t in (k, v))
        score = factor * (q[:, :, h].float() @ key)
        if softcap:
            score = softcap * torch.tanh(score / softcap)
        score = score + bias[:, of].float()
        sums = lse[:, h, :, None]
        there = seen & torch.isfinite(sums)  # −inf: a row that sees nothing
        p = torch.where(there, torch.exp(score - sums), 0.0)
        g = dout[:, :, h].float()
        delta = (g * o[:, :, h].float()).sum(-1, keepdim=True)
        if dlse is not None:
            delta = delta - dlse[:, h, :, None]
        ds = torch.where(there, p * (g @ value - delta), 0.0)[:, None]
        made[:, of : of + 1] += ds.sum(summed, keepdim=True) if summed else ds
    return made.to(bias.dtype)


GRADIENTS = {"bias": dbias}
