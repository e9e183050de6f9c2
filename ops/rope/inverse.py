"""The gradients of rotations by tables, positions and frequencies: the inverse rotation, by the
operators themselves.

With ``y_l = x_l · cos_l − x_h · sin_l``, ``y_h = x_h · cos_h + x_l · sin_h``: ``dx_l = dy_l ·
cos_l + dy_h · sin_h``, ``dx_h = dy_h · cos_h − dy_l · sin_l``, a rotation by the negated sines of
the other channel. Nothing of q and k is kept. Read next:
apply_rotary_pos_emb/apply_rotary_pos_emb.py (AUTOGRAD),
../../python/dlblas/torch/_autograd.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_Pair = tuple[torch.Tensor, torch.Tensor]


def by_tables(
    dq: torch.Tensor, dk: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, style: str,
    cast_before_sum: bool = False,
) -> _Pair:  # fmt: skip
    """Gradients of q and k ``[*T, H, 2Dh]`` from those of the rotated heads; tables of 2Dh or Dh
    columns."""
    width = sin.shape[-1]
    if width == dq.shape[-1]:
        sin = sin.roll(width // 2, -1)
    return in_style(
        style,
        lambda way: torch.ops.dlblas.apply_rotary_pos_emb(
            dq, dk, cos, -sin, style=way, cast_before_sum=cast_before_sum
        ),
    )


def by_angles(
    dq: torch.Tensor, dk: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, style: str
) -> _Pair:
    """As ``by_tables``, with tables of Dh columns for the first 2Dh channels; the others are
    copied."""
    width = 2 * cos.shape[-1]
    turned = by_tables(dq[..., :width], dk[..., :width], cos, sin, style)
    if width == dq.shape[-1]:
        return turned
    rests = dq[..., width:], dk[..., width:]
    whole = (torch.cat(pair, -1) for pair in zip(turned, rests, strict=True))
    return tuple(whole)  # type: ignore[return-value]


def in_style(style: str, turn: Callable[[str], Any]) -> _Pair:
    """``turn(style)``. What interleaved_to_half wrote as halves is turned as halves, then
    interleaved again."""
    if style != "interleaved_to_half":
        return turn(style)  # type: ignore[no-any-return]
    halves = (x.unflatten(-1, (2, x.shape[-1] // 2)) for x in turn("neox"))
    return tuple(x.transpose(-1, -2).flatten(-2) for x in halves)  # type: ignore[return-value]


def rows_at(table: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Rows of a table. Tokens with negative positions, which the operators skip, have row 0."""
    return table[positions.long().clamp(min=0)]


# ---- the formulas: of the shapes of q and k, the operators' other arguments, and dq and dk ----


def apply_rotary_pos_emb(
    q: Any, k: Any, cos: torch.Tensor, sin: torch.Tensor, style: str, cast_before_sum: bool,
    dq: torch.Tensor, dk: torch.Tensor,
) -> tuple[Any, ...]:  # fmt: skip
    """With cast_before_sum the gradients round as the results do."""
    return (*by_tables(dq, dk, cos, sin, style, cast_before_sum), None, None)


def rope(
    q: Any, k: Any, positions: torch.Tensor, cos_sin_cache: torch.Tensor, style: str,
    dq: torch.Tensor, dk: torch.Tensor,
) -> tuple[Any, ...]:  # fmt: skip
    cos, sin = rows_at(cos_sin_cache, positions).chunk(2, -1)
    return (*by_angles(dq, dk, cos, sin, style), None, None)


def mrope_heads(
    q: Any, k: Any, time: torch.Tensor, height: torch.Tensor, width: torch.Tensor,
    cos_sin_cache: torch.Tensor, first: int, second: int, style: str, dq: torch.Tensor,
    dk: torch.Tensor,
) -> tuple[Any, ...]:  # fmt: skip
    rows = [rows_at(cos_sin_cache, at).chunk(2, -1) for at in (time, height, width)]
    cos, sin = (
        torch.cat((t[..., :first], h[..., first:second], w[..., second:]), -1)
        for t, h, w in zip(*rows, strict=True)
    )
    return (*by_angles(dq, dk, cos, sin, style), None, None, None, None)


def fused_rotary_emb(
    q: Any, k: Any, position_ids: torch.Tensor, inv_freq: torch.Tensor, scaling_factor: float,
    style: str, dq: torch.Tensor, dk: torch.Tensor,
) -> tuple[Any, ...]:  # fmt: skip
    turned = in_style(
        style,
        lambda way: torch.ops.dlblas.fused_rotary_emb(
            dq, dk, position_ids, -inv_freq, scaling_factor, style=way
        ),
    )
    return (*turned, None, None)


GRADIENTS: dict[str, Callable[..., Any]] = {
    "apply_rotary_pos_emb": apply_rotary_pos_emb,
    "fused_rotary_emb": fused_rotary_emb,
    "mrope_heads": mrope_heads,
    "rope": rope,
}
