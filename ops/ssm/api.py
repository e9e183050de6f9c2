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
from .._given import need
from .._overlap import check_apart
from .._results import check_shape
from .._spread import into
from ..errors import ShapeMismatchError

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
    activation: str | None = None, *, out: Any = None,
) -> Any:  # fmt: skip
    """Convolves each channel causally: ``y_t = act(bias + Σ_K weight_k · x_(t−K+1+k))``.

    Each output depends on the last K inputs of its channel. x ``[batch, C, L]``, or ``[C, T]`` with
    ``cu_seqlens`` ``[S+1]``, the start of each sequence and the end of the last; weight ``[C, K]``,
    bias ``[C]``; y has x's shape and dtype. ``state`` ``[batch or S, C, K−1]`` holds the inputs
    before each sequence, oldest first, and is overwritten with the last inputs, for the next call.
    Without it, those inputs are 0. Any strides: tokens or channels may be contiguous. activation is
    None, ``"silu"`` or its synonym ``"swish"``. ``out``: where y goes. No gradient. Dtypes,
    numerics and errors are those of ``causal_conv1d_batch`` and ``causal_conv1d_varlen``. Source:
    causal-conv1d; as in vLLM and SGLang.
    """
    if cu_seqlens is None:
        return _batch(x, weight, bias, state, _named(activation), out=out)
    return _varlen(x, weight, bias, state, cu_seqlens, _named(activation), out=out)


def causal_conv1d_update(
    x: Any, state: Any, weight: Any, bias: Any = None, activation: str | None = None, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """``causal_conv1d`` for the next token of each sequence, x ``[batch, C]``, or the next L, x
    ``[batch, C, L]``. The state ``[batch, C, K−1]`` is overwritten; y has x's shape and dtype.
    ``out``: where y goes.
    """
    op = "causal_conv1d_update"
    need(op, x=x, state=state)
    if len(x.shape) == 3:
        return _batch(x, weight, bias, state, _named(activation), out=out)
    if len(x.shape) != 2:
        raise _wrong(op, "x", "[batch, C] or [batch, C, L]", tuple(x.shape))
    if out is None:
        return _batch(x[..., None], weight, bias, state, _named(activation))[..., 0]
    check_shape(op, out, tuple(x.shape))
    _batch(x[..., None], weight, bias, state, _named(activation), out=out[..., None])
    return out


def _zeros(like: Any, shape: tuple[int, ...], dtype: str = "float32") -> Any:
    """Zeros in the package and on the device of ``like``."""
    if hasattr(like, "new_zeros"):
        import torch

        return like.new_zeros(shape, dtype=getattr(torch, dtype))
    return import_module("numpy").zeros(shape, dtype)


def _starts(like: Any, batch: int, length: int) -> Any:
    """0, length, 2 · length … batch · length as i32."""
    if length == 0:
        return _zeros(like, (batch + 1,), "int32")
    if hasattr(like, "new_zeros"):
        import torch

        last = batch * length + 1
        return torch.arange(0, last, length, dtype=torch.int32, device=like.device)
    return import_module("numpy").arange(0, batch * length + 1, length, "int32")


def _wrong(op: str, argument: str, expected: str, got: tuple[int, ...]) -> ShapeMismatchError:
    return ShapeMismatchError.from_library(
        f"{op}: {argument} has another shape; expected {expected}, got {got}",
        op, argument, expected, str(got),
    )  # fmt: skip


def gated_delta_rule(
    q: Any, k: Any, v: Any, g: Any, beta: Any, scale: float | None = None, state: Any = None,
    cu_seqlens: Any = None, qk_l2norm: bool = False, *, out: Any = None,
) -> Any:  # fmt: skip
    """Linear attention with a state that decays by g and is corrected by beta, token by token:
    ``S = e^g·S; S = S + k·(beta·(v − Sᵀ·k))ᵀ; o = scale·Sᵀ·q``.

    q, k ``[batch, L, H, K]``, v ``[batch, L, Hv, V]``, g and beta ``[batch, L, Hv]``, H a divisor
    of Hv; or, with ``cu_seqlens`` ``[S+1]``, packed sequences without the batch dimension. o has
    v's shape. ``state`` ``[batch or S, Hv, K, V]`` is S before each sequence and is overwritten
    with S after it; without it, sequences start from zeros. ``scale``: 1/√K by default.
    ``qk_l2norm`` divides q and k by sqrt(Σ x² + 1e-6). ``out``: where o goes. Decoding calls it
    with one token at a time. No gradient. Dtypes, numerics and errors are those of
    ``gated_delta_rule_packed``. Source: Yang et al., 2024.
    """
    op = "gated_delta_rule"
    tensors = {"q": q, "k": k, "v": v, "g": g, "beta": beta}
    need(op, **tensors)
    width = q.shape[-1]
    by = 1 / max(1, width) ** 0.5 if scale is None else scale
    if cu_seqlens is not None:
        if state is None:
            _check_ranks(op, tensors, 1)
            sequences = max(0, cu_seqlens.shape[0] - 1)
            state = _zeros(q, (sequences, v.shape[1], width, v.shape[2]))
        return _delta(q, k, v, g, beta, state, cu_seqlens, by, qk_l2norm, out=out)
    _check_ranks(op, tensors, 2)
    batch, length = q.shape[:2]
    if state is None:
        state = _zeros(q, (batch, v.shape[2], width, v.shape[3]))
    elif tuple(state.shape[:1]) != (batch,):
        raise _wrong(op, "state", f"{batch} sequences, as q", tuple(state.shape))
    flat = [x.reshape((batch * length, *x.shape[2:])) for x in tensors.values()]
    rest = state, _starts(q, batch, length), by, qk_l2norm
    if out is None:
        return _delta(*flat, *rest).reshape(v.shape)
    check_shape(op, out, tuple(v.shape))
    check_apart(op, out, **tensors, state=state)
    return into(out, tuple(flat[2].shape), lambda to: _delta(*flat, *rest, out=to), op)


def _check_ranks(op: str, tensors: dict[str, Any], lead: int) -> None:
    """Refuses tensors of another rank, or with other leading dimensions than q: as rows they would
    be those of other tokens."""
    wanted = tuple(tensors["q"].shape[:lead])
    for name, x in tensors.items():
        rank = lead + (1 if name in ("g", "beta") else 2)
        got = tuple(x.shape)
        if len(got) != rank:
            raise _wrong(op, name, f"{rank} dimensions", got)
        if got[:lead] != wanted:
            raise _wrong(op, name, f"{wanted} ahead, as q", got)
