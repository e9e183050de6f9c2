"""``dlblas.causal_conv1d`` and ``dlblas.causal_conv1d_update``: the short convolutions in front of
state-space models and linear attention; and ``dlblas.gated_delta_rule``.

In: arrays of any package that the operators take. Out: what they return; nothing is computed here,
and torch.compile traces it. Read next: causal_conv1d_batch/, causal_conv1d_varlen/,
gated_delta_rule_packed/.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .._functions import FUNCTIONS

__all__ = ["causal_conv1d", "causal_conv1d_update", "gated_delta_rule"]

IN_TORCH = {
    "causal_conv1d": {"state": "Tensor(a!)?"},
    "causal_conv1d_update": {"state": "Tensor(a!)"},
    "gated_delta_rule": {"state": "Tensor(a!)?"},
}

_batch = FUNCTIONS["causal_conv1d_batch"].call
_varlen = FUNCTIONS["causal_conv1d_varlen"].call
_delta = FUNCTIONS["gated_delta_rule_packed"].call


def _named(activation: str | None) -> str:
    return {None: "", "swish": "silu"}.get(activation, activation or "")


def causal_conv1d(
    x: Any, weight: Any, bias: Any = None, state: Any = None, cu_seqlens: Any = None,
    activation: str | None = None,
) -> Any:  # fmt: skip
    """Convolves each channel causally: ``y_t = act(bias + Σ_K weight_k · x_(t−K+1+k))``.

    Each output depends on the last K inputs of its channel. x ``[batch, C, L]``, or ``[C, T]`` with
    ``cu_seqlens`` ``[S+1]``, the start of each sequence and the end of the last; weight ``[C, K]``,
    bias ``[C]``; y has x's shape and dtype. ``state`` ``[batch or S, C, K−1]`` holds the inputs
    before each sequence, oldest first, and is overwritten with the last inputs, for the next call.
    Without it, those inputs are 0. Any strides: tokens or channels may be contiguous. activation is
    None, ``"silu"`` or its synonym ``"swish"``. No gradient. Dtypes, numerics and errors are those
    of ``causal_conv1d_batch`` and ``causal_conv1d_varlen``. Source: causal-conv1d; as in vLLM and
    SGLang.
    """
    if cu_seqlens is None:
        return _batch(x, weight, bias, state, _named(activation))
    return _varlen(x, weight, bias, state, cu_seqlens, _named(activation))


def causal_conv1d_update(
    x: Any, state: Any, weight: Any, bias: Any = None, activation: str | None = None
) -> Any:
    """``causal_conv1d`` for the next token of each sequence, x ``[batch, C]``, or the next L, x
    ``[batch, C, L]``. The state ``[batch, C, K−1]`` is overwritten; y has x's shape and dtype.
    """
    if len(x.shape) == 3:
        return _batch(x, weight, bias, state, _named(activation))
    return _batch(x[..., None], weight, bias, state, _named(activation))[..., 0]


def _made(like: Any, zeros: tuple[int, ...] | None, last: int, step: int) -> Any:
    """f32 zeros, or 0, step, … last as i32, in the package and on the device of ``like``."""
    if hasattr(like, "new_zeros"):
        import torch

        if zeros is not None:
            return like.new_zeros(zeros, dtype=torch.float32)
        return torch.arange(0, last + 1, step, dtype=torch.int32, device=like.device)
    package = import_module("numpy")
    return package.zeros(zeros, "f") if zeros else package.arange(0, last + 1, step, "i4")


def gated_delta_rule(
    q: Any, k: Any, v: Any, g: Any, beta: Any, scale: float | None = None, state: Any = None,
    cu_seqlens: Any = None, qk_l2norm: bool = False,
) -> Any:  # fmt: skip
    """Linear attention with a state that decays by g and is corrected by beta, token by token:
    ``S = e^g·S; S = S + k·(beta·(v − Sᵀ·k))ᵀ; o = scale·Sᵀ·q``.

    q, k ``[batch, L, H, K]``, v ``[batch, L, Hv, V]``, g and beta ``[batch, L, Hv]``, H a divisor
    of Hv; or, with ``cu_seqlens`` ``[S+1]``, packed sequences without the batch dimension. o has
    v's shape. ``state`` ``[batch or S, Hv, K, V]`` is S before each sequence and is overwritten
    with S after it; without it, sequences start from zeros. ``scale``: 1/√K by default.
    ``qk_l2norm`` divides q and k by sqrt(Σ x² + 1e-6). Decoding calls it with one token at a time.
    No gradient. Dtypes, numerics and errors are those of ``gated_delta_rule_packed``. Source: Yang
    et al., 2024.
    """
    width = q.shape[-1]
    by = 1 / max(1, width) ** 0.5 if scale is None else scale
    if cu_seqlens is not None:
        if state is None:
            sequences = cu_seqlens.shape[0] - 1
            state = _made(q, (sequences, v.shape[1], width, v.shape[2]), 0, 1)
        return _delta(q, k, v, g, beta, state, cu_seqlens, by, qk_l2norm)
    batch, length = q.shape[:2]
    if state is None:
        state = _made(q, (batch, v.shape[2], width, v.shape[3]), 0, 1)
    flat = [x.reshape((batch * length, *x.shape[2:])) for x in (q, k, v, g, beta)]
    offsets = _made(q, None, batch * length, max(1, length))
    return _delta(*flat, state, offsets, by, qk_l2norm).reshape(v.shape)
