"""``dlblas.fused_rmsnorm_rope``: the norm and rotation of a whole projection's width.

In: arrays of any package that the operators take. Out: what ``rms_norm_rope`` returns; nothing is
computed here, and torch.compile follows it. Read next: rms_norm_rope/.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .._functions import FUNCTIONS
from ..errors import ShapeMismatchError

__all__ = ["fused_rmsnorm_rope"]

_OP = "fused_rmsnorm_rope"
_rms_norm_rope = FUNCTIONS["rms_norm_rope"].call


def fused_rmsnorm_rope(
    x: Any, weight: Any, cos: Any, sin: Any, eps: float = 1e-6, num_heads: int | None = None
) -> Any:
    """RMS norm over all heads of a token together, then rotation of each, neox.

    ``n = x · rsqrt(mean(x²) + eps) · weight`` over the whole width ``H·D``; then, of each head and
    its pairs ``(i, i + D/2)``, ``y_l = n_l · cos_l − n_h · sin_l``, ``y_h = n_h · cos_l +
    n_l · sin_l``: only the first ``D/2`` columns of the tables are read, for both halves.

    x ``[B, S, H·D]`` (any leading dimensions, any strides), weight ``[H·D]``, cos and sin
    ``[S, D]``, ``[B, S, D]`` or ``[B, S, 1, D]``, where B may be 1. D is the tables' width, H what
    it leaves of x's; ``num_heads`` is checked where it is given. x is f32, f16 or bf16; weight and
    tables have x's dtype or are f32. y is shaped as x and has its dtype; it shares no memory.

    In f32, one rounding. No gradient. Errors: ShapeMismatchError for widths that do not fit, and
    those of ``rms_norm_rope``. Source: Zhang and Sennrich, 2019; Su et al., RoFormer, 2021.
    """
    if len(x.shape) < 2:
        raise _wrong("x", "2 dimensions or more", tuple(x.shape))
    width, head = int(x.shape[-1]), int(cos.shape[-1])
    heads = width // head if head else 0
    if heads * head != width or (num_heads is not None and num_heads != heads):
        told = f" of {num_heads} heads" if num_heads is not None else ""
        raise _wrong("x", f"a last dimension{told} of {head} columns each, as cos has", width)
    tokens = tuple(x.shape[:-1])
    y = _rms_norm_rope(
        x.reshape((*tokens, heads, head)),
        weight.reshape((heads, head)) if tuple(weight.shape) == (width,) else weight,
        _over(cos, "cos", tokens), _over(sin, "sin", tokens), eps,
    )  # fmt: skip
    return y.reshape(x.shape)


def _over(table: Any, name: str, tokens: tuple[int, ...]) -> Any:
    """The table for all leading dimensions of x, without a copy."""
    shape = tuple(table.shape)
    if len(shape) == len(tokens) + 2 and shape[-2] == 1:
        shape = (*shape[:-2], shape[-1])
        table = table.reshape(shape)
    wanted = (*tokens, shape[-1])
    if shape == wanted:
        return table
    ahead = (1,) * (len(wanted) - len(shape)) + shape
    if len(ahead) != len(wanted) or any(
        have not in (1, want) for have, want in zip(ahead, wanted, strict=True)
    ):
        raise _wrong(name, f"[S, D], [B, S, D] or [B, S, 1, D] for tokens {tokens}", shape)
    if hasattr(table, "expand"):
        return table.expand(wanted)
    return import_module(type(table).__module__).broadcast_to(table, wanted)


def _wrong(argument: str, expected: str, got: Any) -> ShapeMismatchError:
    return ShapeMismatchError.from_library(
        f"{_OP}: {argument} has another shape; expected {expected}, got {got}",
        _OP, argument, expected, str(got),
    )  # fmt: skip
