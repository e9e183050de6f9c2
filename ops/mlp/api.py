"""``dlblas.gated_mlp`` and ``dlblas.fused_gated_mlp``: feed-forward layers; and
``dlblas.rms_norm_linear``: a projection behind a norm.

In: arrays of any package that the operators take. Out: what the operators of this family return;
nothing is computed here, and torch.compile follows it. Read next: gated_linear/, norm_linear/,
norm_gated_linear/.
"""

from __future__ import annotations

from typing import Any

from .._functions import FUNCTIONS
from .._spread import spread
from ..errors import ArgumentError, ShapeMismatchError

__all__ = ["fused_gated_mlp", "gated_mlp", "rms_norm_linear"]

IN_TORCH = {"rms_norm_linear": {"rope": ""}}  # a tuple of tables and numbers

_gated = FUNCTIONS["gated_linear"].call
_norm_linear = FUNCTIONS["norm_linear"].call
_matmul = FUNCTIONS["matmul"].call
_rotate = FUNCTIONS["apply_rotary_pos_emb_"].call


def gated_mlp(
    x: Any, w_gate: Any, w_up: Any, *, activation: str = "silu", activate: str = "gate",
    w_down: Any = None, out: Any = None,
) -> Any:  # fmt: skip
    """The gated part of a feed-forward layer in one pass over x, and the whole with ``w_down``.

    ``h = act(x · w_gateᵀ) ⊙ (x · w_upᵀ)``, with ``activate="up"`` ``(x · w_gateᵀ) ⊙ act(x ·
    w_upᵀ)``; returns h, or ``h · w_downᵀ``.

    x ``[*T, K]`` f32, f16 or bf16, w_gate and w_up ``[F, K]``, w_down ``[N, F]`` in its dtype ->
    ``[*T, F]``, or ``[*T, N]``. Products and sums are f32; gate and product act on the f32 sums,
    and h is rounded once, at its store. ``activation``: ``silu``, ``gelu`` (erf), ``gelu_tanh``,
    ``relu``. Gradients of all tensors, in torch. ``out``: where the result goes. Errors:
    ArgumentError for another ``activate``; those of ``gated_linear`` and ``matmul``. Source:
    Shazeer, GLU Variants Improve Transformer, 2020.
    """
    if activate not in ("gate", "up"):
        raise ArgumentError.from_library(
            f'gated_mlp: activate is not offered; expected "gate" or "up", got {activate!r}',
            "gated_mlp", "activate", '"gate" or "up"', repr(activate),
        )  # fmt: skip
    gate, up = (w_gate, w_up) if activate == "gate" else (w_up, w_gate)
    if w_down is None:
        return _gated(x, gate, up, activation, out=out)
    return _matmul(_gated(x, gate, up, activation), w_down.T, out=out)


def fused_gated_mlp(x: Any, gate_weight: Any, up_weight: Any, activation: str = "silu") -> Any:
    """``(x · gate_weightᵀ) ⊙ act(x · up_weightᵀ)``: the activation is on the *up* branch, as in
    Triton Fused Operators.

    x ``[*T, K]``, both weights ``[F, K]`` -> ``[*T, F]``; ``activation`` is ``silu`` or ``gelu``
    (erf). Dtypes, numerics, gradients and errors are those of ``gated_mlp``; ArgumentError, a
    ValueError, for another activation.
    """
    if activation not in ("silu", "gelu"):
        raise ArgumentError.from_library(
            f'fused_gated_mlp: activation is not offered; expected "silu" or "gelu", got '
            f"{activation!r}",
            "fused_gated_mlp", "activation", '"silu" or "gelu"', repr(activation),
        )  # fmt: skip
    return _gated(x, up_weight, gate_weight, activation)


def rms_norm_linear(
    x: Any, rms_w: Any, weight: Any, eps: float = 1e-6, *, rope: Any = None, out: Any = None
) -> Any:
    """A projection behind a norm: ``y = rms_norm(x, rms_w, eps) · weightᵀ``; with ``rope`` that of
    q, k and v together, whose q and k are rotated.

    x ``[*T, K]`` f32, f16 or bf16, rms_w ``[K]`` in its dtype or f32, weight ``[N, K]`` -> y
    ``[*T, N]``. ``rope`` is ``(cos, sin, heads, kv_heads)``, or these and a style, ``"neox"``,
    ``"interleaved"`` or ``"interleaved_to_half"``: tables ``[S, D]`` or ``[*T, D]``, as
    ``apply_rotary_pos_emb`` reads them.
    Columns of y are q's heads of D channels, k's, and the rest, which stays as it is. Rotated ones
    are rounded before the rotation, too. Gradients of x, rms_w and weight without ``rope`` alone.
    Errors: ShapeMismatchError where y has fewer columns than q and k; those of ``norm_linear`` and
    ``apply_rotary_pos_emb``.
    """
    y = _norm_linear(x, rms_w, weight, eps, out=out)
    if rope is None:
        return y
    cos, sin, heads, kv_heads, *style = rope
    rotated, width = heads + kv_heads, int(cos.shape[-1])
    if rotated * width > y.shape[-1]:
        expected, got = f"{rotated} heads of {width} channels", str(int(y.shape[-1]))
        raise ShapeMismatchError.from_library(
            f"rms_norm_linear: weight has too few rows; expected {expected} at least, got {got}",
            "rms_norm_linear", "weight", expected, got,
        )  # fmt: skip
    tokens = tuple(y.shape[:-1])
    q, k = y[..., : heads * width], y[..., heads * width : rotated * width]
    q, k = q.reshape((*tokens, heads, width)), k.reshape((*tokens, kv_heads, width))  # views
    tables = (spread(table, (*tokens, width)) for table in (cos, sin))
    _rotate(q, k, *tables, style=style[0] if style else "neox")
    return y
