"""The gradient of flash_attention_rotary: flash_attention_backward of the rotated heads, then the
transposed rotation.

Rotated heads, o and lse are recomputed; for training, call dlblas.kernels.fused_rotary_and_fa,
which keeps them. Read next: flash_attention_rotary.py (AUTOGRAD), ../flash_attention_backward/.
"""

from __future__ import annotations

import torch

_Tensor = torch.Tensor | None


def _swapped(x: torch.Tensor, width: int) -> torch.Tensor:
    """Swaps the two halves of the last dimension; half a table serves both channels of a pair."""
    return x if 2 * x.shape[-1] == width else x.roll(width // 2, -1)


def flash_attention_rotary(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor,
    causal: bool, scale: float, window: int, softcap: float, dout: _Tensor, dlse: _Tensor,
) -> tuple[_Tensor, ...]:  # fmt: skip
    """Gradients of q, k, v and both tables."""
    ops = torch.ops.dlblas
    tables = [t.expand(*q.shape[:2], t.shape[-1]) for t in (cos, sin)]
    turned = ops.apply_rotary_pos_emb(q, k, *tables)
    scalars = {"causal": causal, "scale": scale, "window": window, "softcap": softcap}
    o, lse = ops.flash_attention_lse(*turned, v, None, **scalars)
    if dout is None:
        dout = torch.zeros_like(o)
    dq, dk, dv = ops.flash_attention_backward(
        dout.contiguous(), *turned, v, o, lse, dlse, None, **scalars
    )
    of_tables: list[_Tensor] = []
    for table, is_sin in ((cos, False), (sin, True)):
        if not table.requires_grad:
            of_tables.append(None)
            continue
        made = 0
        for grad, x in ((dq, q), (dk, k)):
            low, high = x.chunk(2, -1)
            factor = torch.cat((-high, low), -1) if is_sin else x
            made = made + (grad.float() * factor.float()).sum(-2)
        if 2 * table.shape[-1] == q.shape[-1]:
            made = sum(made.chunk(2, -1))
        of_tables.append(made.sum_to_size(table.shape).to(table.dtype))
    back = ops.apply_rotary_pos_emb(dq, dk, tables[0], -_swapped(tables[1], q.shape[-1]))
    return *back, dv, *of_tables


GRADIENTS = {"flash_attention_rotary": flash_attention_rotary}
