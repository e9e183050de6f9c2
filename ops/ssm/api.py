"""``dlblas.causal_conv1d`` and ``dlblas.causal_conv1d_update``: the short convolutions in front of
state-space models and linear attention.

In: arrays of any package that the operators take. Out: what they return; nothing is computed here,
and torch.compile follows it. Read next: causal_conv1d_batch/, causal_conv1d_varlen/.
"""

from __future__ import annotations

from typing import Any

from .._functions import FUNCTIONS

__all__ = ["causal_conv1d", "causal_conv1d_update"]

_batch = FUNCTIONS["causal_conv1d_batch"].call
_varlen = FUNCTIONS["causal_conv1d_varlen"].call


def _named(activation: str | None) -> str:
    return {None: "", "swish": "silu"}.get(activation, activation or "")


def causal_conv1d(
    x: Any, weight: Any, bias: Any = None, state: Any = None, cu_seqlens: Any = None,
    activation: str | None = None,
) -> Any:  # fmt: skip
    """Each channel with its last K inputs: ``y_t = act(bias + Σ_K weight_k · x_(t−K+1+k))``.

    x ``[batch, C, L]``, or ``[C, T]`` where ``cu_seqlens`` ``[S+1]`` says where sequences begin and
    the last one ends; weight ``[C, K]``, bias ``[C]``; y as x. ``state`` ``[batch or S, C, K−1]``
    holds the inputs before each sequence, from the oldest on, and is written: afterwards it has the
    last ones, for the next call. Without it zeros lie before. Any strides: tokens or channels may
    be the contiguous ones. activation None, ``"silu"`` or ``"swish"``, which is the same. No
    gradient. Dtypes, numerics and errors are those of ``causal_conv1d_batch`` and
    ``causal_conv1d_varlen``. Source: causal-conv1d; as in vLLM and SGLang.
    """
    if cu_seqlens is None:
        return _batch(x, weight, bias, state, _named(activation))
    return _varlen(x, weight, bias, state, cu_seqlens, _named(activation))


def causal_conv1d_update(
    x: Any, state: Any, weight: Any, bias: Any = None, activation: str | None = None
) -> Any:
    """The next token of each sequence: ``causal_conv1d`` of x ``[batch, C]``, or ``[batch, C, L]``
    of several, with the state ``[batch, C, K−1]``, which is written. y as x.
    """
    if len(x.shape) == 3:
        return _batch(x, weight, bias, state, _named(activation))
    return _batch(x[..., None], weight, bias, state, _named(activation))[..., 0]
