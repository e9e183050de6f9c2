"""``dlblas.cross_entropy``: the loss of a model's logits, reduced as torch reduces it.

In: arrays of any package that the operators take. Out: a loss, or one per row; gradients and
torch.compile go through ``cross_entropy_rows``. Read next: cross_entropy_rows/.
"""

from __future__ import annotations

from typing import Any

from .._functions import FUNCTIONS
from ..errors import ArgumentError

__all__ = ["cross_entropy"]

_rows = FUNCTIONS["cross_entropy_rows"].call
_REDUCTIONS = ("mean", "sum", "none")


def cross_entropy(
    logits: Any, target: Any, weight: Any = None, *, ignore_index: int = -100,
    label_smoothing: float = 0.0, lse_square_scale: float = 0.0, reduction: str = "mean",
    softcap: float | None = None, return_z_loss: bool = False,
) -> Any:  # fmt: skip
    """Cross entropy of rows of logits, with class weights, label smoothing, z-loss and a soft cap.

    ``x = softcap · tanh(logits / softcap)`` where it is given, ``lse = log sum_C exp(x)``,
    ``loss = (1 − ε) · w_y · (lse − x_y) + ε/C · sum_C w · (lse − x) + lse_square_scale · lse²`` of
    the row's target y; 0 where y is ignore_index. ``"mean"``: the sum over ``sum w_y`` of the rows
    that count (their number without weights), as torch's; z-losses over their number. Returns the
    loss, with ``return_z_loss`` a tuple of it and the part that is ``lse_square_scale · lse²``.

    logits ``[*T, C]`` f32, f16 or bf16, target ``[*T]`` i32 or i64, weight f32 ``[C]``. The loss is
    f32, ``[]`` or, with ``"none"``, ``[*T]``. One read of the logits forward, one read and one
    write backward; logits of 16 bits are never stored as f32. Errors: ArgumentError for another
    reduction, and those of ``cross_entropy_rows``. A target outside 0 … C − 1 that is not
    ignore_index gives NaN. Source: torch's and Liger Kernel's functions of this name.
    """
    if reduction not in _REDUCTIONS:
        expected = ", ".join(_REDUCTIONS)
        raise ArgumentError.from_library(
            f"cross_entropy: reduction is not offered; expected {expected}, got {reduction!r}",
            "cross_entropy", "reduction", expected, repr(reduction),
        )  # fmt: skip
    total = weight.sum() if weight is not None and label_smoothing else None
    loss, lse = _rows(logits, target, weight, total, ignore_index, label_smoothing, softcap or 0.0)
    loss, lse = loss[..., 0], lse[..., 0]
    counts = target != ignore_index
    z_loss = lse_square_scale * lse * lse * counts if lse_square_scale or return_z_loss else None
    if reduction != "none":
        rows = counts.sum() if reduction == "mean" else 1
        weights = rows
        if reduction == "mean" and weight is not None:
            weights = (weight[target * counts] * counts).sum()
        loss = loss.sum() / weights
        z_loss = z_loss.sum() / rows if z_loss is not None else None
    if lse_square_scale:
        loss = loss + z_loss
    return (loss, z_loss) if return_z_loss else loss
