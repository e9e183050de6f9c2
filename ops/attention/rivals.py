"""torch's own attention as candidates: ``torch_sdpa`` (CPUs: dense, packed, and the gradient),
``torch_flash`` and ``torch_cudnn`` (GPUs: dense, and the gradient without a mask).

In: torch tensors over a call's memory. Out: the results, written in place; RIVALS, which
python/dlblas/torch/_rivals.py registers in every process that has torch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ..torch._rivals import Asked, Rival

_aten = torch.ops.aten
_Square = Callable[[Any, Any, Any, bool], tuple[Any, Any]]


def _signed(q: Any, scale: float) -> tuple[Any, float | None]:
    """q and a positive factor (None for 0), because torch takes the largest product before it
    scales. A negative sign moves to q."""
    if scale == 0:
        return q, None
    return (-q, -scale) if scale < 0 else (q, scale)


def _by_rows(*tensors: Any) -> tuple[Any, ...]:
    """Copies tensors whose last dimension is strided: torch's kernels need contiguous heads."""
    return tuple(t if t.stride(-1) == 1 else t.contiguous() for t in tensors)


def bottom_right(square: _Square, q: Any, k: Any, v: Any, o: Any, lse: Any) -> None:
    """Causal attention whose last query sees the last key, built from one that is right for S = L.

    q and o ``[B, S, H, D]``, lse ``[B, H, S]``. All queries see the keys before the square; the two
    parts are combined by their lse. Queries before the square see nothing."""
    ahead = k.shape[1] - q.shape[1]
    if ahead < 0:
        o[:, :-ahead], lse[..., :-ahead] = 0, -torch.inf
        q, o, lse = q[:, -ahead:], o[:, -ahead:], lse[..., -ahead:]
    at = max(0, ahead)
    if q.shape[1] == 0 or k.shape[1] == 0:
        return
    made, sums = square(q, k[:, at:], v[:, at:], True)
    if at:
        before, its = square(q, k[:, :at], v[:, :at], False)
        both = torch.logaddexp(sums, its)
        share, other = ((t - both).exp().transpose(1, 2)[..., None] for t in (sums, its))
        made, sums = (made * share + before * other).to(o.dtype), both
    o.copy_(made)
    lse.copy_(sums)


def finite_values(v: Any) -> tuple[Any, Any]:
    """v with 0 in place of non-finite values, and what these add to each row that sees them: torch
    multiplies an unseen value by 0, which turns an infinity into NaN. Does not wait for the
    device."""
    there = torch.isfinite(v)
    return torch.where(there, v, 0), torch.where(there, 0, v).cumsum(1)


def _on_cpu(q: Any, k: Any, v: Any, causal: bool, factor: float | None) -> tuple[Any, Any]:
    """The q heads that share a k head become the heads of one entry in a batch of Hkv, so k is not
    copied. If causal, S = L."""
    q, k, v = _by_rows(q, k, v)
    if not all(torch.isfinite(t).all() for t in (q, k, v)):
        return _by_hand(q, k, v, causal, factor)
    grouped = k.shape[2], q.shape[2] // k.shape[2]
    o, lse = torch.empty(q.shape, dtype=q.dtype), torch.empty(q.shape[0], q.shape[2], q.shape[1])
    queries, made = (torch.unflatten(t, 2, grouped).permute(0, 2, 3, 1, 4) for t in (q, o))
    sums = torch.unflatten(lse, 1, grouped)
    for b in range(q.shape[0]):
        keys, values = (t[b].transpose(0, 1)[:, None].expand(*grouped, -1, -1) for t in (k, v))
        made[b], sums[b] = _aten._scaled_dot_product_flash_attention_for_cpu(
            queries[b], keys, values, 0.0, causal, scale=factor
        )
    return o, lse


def _by_hand(q: Any, k: Any, v: Any, causal: bool, factor: float | None) -> tuple[Any, Any]:
    """One query row at a time, over the keys that it sees: torch's kernel turns NaN into 0."""
    o, lse = torch.empty(q.shape, dtype=q.dtype), torch.empty(q.shape[0], q.shape[2], q.shape[1])
    keys, values = (t.repeat_interleave(q.shape[2] // k.shape[2], 2) for t in (k, v))
    scale = q.shape[-1] ** -0.5 if factor is None else factor
    for s in range(q.shape[1]):
        seen = slice(0, s + 1 if causal else None)
        scores = scale * torch.einsum("bhd,blhd->bhl", q[:, s], keys[:, seen])
        lse[..., s] = scores.logsumexp(-1)
        lse[..., s].masked_fill_(lse[..., s] == torch.inf, torch.nan)
        weights = torch.exp(scores - lse[..., s, None])
        nothing = lse[..., s] == -torch.inf
        weights.masked_fill_(nothing[..., None], 0)
        made = torch.einsum("bhl,blhd->bhd", weights, values[:, seen])
        o[:, s] = torch.where(nothing[..., None], 0, made)
    return o, lse


def _run(square: _Square, q: Any, k: Any, v: Any, causal: bool, o: Any, lse: Any) -> None:
    if causal:
        bottom_right(square, q, k, v, o, lse)
        return
    made, sums = square(q, k, v, False)
    o.copy_(made)
    lse.copy_(sums)


def torch_sdpa(q: Any, k: Any, v: Any, causal: bool, scale: float, o: Any, lse: Any) -> None:
    """torch's attention on CPUs."""
    q, factor = _signed(q, scale)
    _run(partial(_on_cpu, factor=factor), q, k, v, causal, o, lse)


def torch_sdpa_varlen(
    q: Any, k: Any, v: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, causal: bool, scale: float,
    o: Any, lse: Any,
) -> None:  # fmt: skip
    """The same, one sequence at a time; rows outside all sequences see nothing."""
    q, factor = _signed(q, scale)
    o.zero_()
    lse.fill_(-torch.inf)
    rows, keys = (torch.as_tensor(t).tolist() for t in (cu_seqlens_q, cu_seqlens_k))
    for n in range(len(rows) - 1):
        its, seen = slice(rows[n], rows[n + 1]), slice(keys[n], keys[n + 1])
        if its.stop <= its.start or seen.stop <= seen.start:
            continue
        tensors = (q[None, its], k[None, seen], v[None, seen])
        square = partial(_on_cpu, factor=factor)
        _run(square, *tensors, causal, o[None, its], lse[None, :, its])


def torch_sdpa_backward(
    dout: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, causal: bool, scale: float, dq: Any,
    dk: Any, dv: Any,
) -> None:  # fmt: skip
    """Its gradient on CPUs: torch gives gradients of k and v per query head, summed here."""
    ahead, mask = k.shape[1] - q.shape[1], None  # two sizes of one bucket
    if causal and ahead < 0:  # the first queries see nothing
        dq[:, :-ahead] = 0
        dout, q, o, dq = (t[:, -ahead:] for t in (dout, q, o, dq))
        lse = lse[..., -ahead:]
    elif causal and ahead:
        at = torch.arange(k.shape[1]) - torch.arange(q.shape[1])[:, None]
        mask = torch.zeros(at.shape, dtype=q.dtype).masked_fill_(at > ahead, -torch.inf)
        causal = False
    negative = scale < 0
    dout, q, k, v, o = _by_rows(dout, q, k, v, o)
    lse = lse.contiguous()
    group = q.shape[2] // k.shape[2]
    of_q = -q if negative else q
    keys, values = (t.transpose(1, 2).repeat_interleave(group, 1) for t in (k, v))
    made = _aten._scaled_dot_product_flash_attention_for_cpu_backward(
        dout.transpose(1, 2), of_q.transpose(1, 2), keys, values, o.transpose(1, 2), lse, 0.0,
        causal, attn_mask=mask, scale=abs(scale) or None,
    )  # fmt: skip
    dq.copy_((-made[0] if negative else made[0]).transpose(1, 2))
    for gradient, out in zip(made[1:], (dk, dv), strict=True):
        out.copy_(gradient.unflatten(1, (-1, group)).float().sum(2).transpose(1, 2))


def _on_gpu(attend: Any, q: Any, k: Any, v: Any, causal: bool) -> tuple[Any, Any]:
    v, more = finite_values(v) if causal else (v, None)
    made = attend(*(t.transpose(1, 2) for t in _by_rows(q, k, v)), causal)
    o, lse = made[0].transpose(1, 2), made[1].reshape(q.shape[0], q.shape[2], q.shape[1])
    if more is not None:
        o = o + more.repeat_interleave(q.shape[2] // k.shape[2], 2)
    return o, lse


def torch_flash(q: Any, k: Any, v: Any, causal: bool, scale: float, o: Any, lse: Any) -> None:
    """torch's FlashAttention-2."""
    q, factor = _signed(q, scale)

    def attend(q: Any, k: Any, v: Any, causal: bool) -> Any:
        return _aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=factor)

    _run(partial(_on_gpu, attend), q, k, v, causal, o, lse)


def torch_cudnn(q: Any, k: Any, v: Any, causal: bool, scale: float, o: Any, lse: Any) -> None:
    """cuDNN's attention, through torch."""
    q, factor = _signed(q, scale)

    def attend(q: Any, k: Any, v: Any, causal: bool) -> Any:
        return _aten._scaled_dot_product_cudnn_attention(
            q, k, v, None, True, 0.0, causal, False, scale=factor
        )

    _run(partial(_on_gpu, attend), q, k, v, causal, o, lse)


def _gradient_on_gpu(
    backward: Callable[..., tuple[Any, Any, Any]], scale: float, tensors: tuple[Any, ...],
    lse: Any, results: tuple[Any, ...],
) -> None:  # fmt: skip
    """Calls a kernel whose tensors have heads before rows; ``tensors``: dout, q, k, v, o."""
    negative = scale < 0
    dout, q, k, v, o = (t.transpose(1, 2) for t in _by_rows(*tensors))
    made = backward(dout, -q if negative else q, k, v, o, lse.contiguous(), abs(scale) or None)
    for gradient, out, sign in zip(made, results, (-1 if negative else 1, 1, 1), strict=True):
        out.copy_((sign * gradient if sign < 0 else gradient).transpose(1, 2))


def _no_dropout(q: Any) -> tuple[Any, Any]:
    """The random state that the gradients take as arguments; unused without dropout."""
    seed = torch.empty(2, dtype=torch.uint64, device=q.device)
    return seed, torch.empty(0, dtype=torch.uint64, device=q.device)


def torch_flash_backward(
    dout: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, causal: bool, scale: float, dq: Any,
    dk: Any, dv: Any,
) -> None:  # fmt: skip
    """FlashAttention-2's gradient; dq is summed with atomics."""

    def backward(dout: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, factor: Any) -> Any:
        return _aten._scaled_dot_product_flash_attention_backward(
            dout, q, k, v, o, lse, None, None, q.shape[2], k.shape[2], 0.0, False,
            *_no_dropout(q), scale=factor,
        )  # fmt: skip

    _gradient_on_gpu(backward, scale, (dout, q, k, v, o), lse, (dq, dk, dv))


def torch_cudnn_backward(
    dout: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, causal: bool, scale: float, dq: Any,
    dk: Any, dv: Any,
) -> None:  # fmt: skip
    """cuDNN's gradient, through torch."""

    def backward(dout: Any, q: Any, k: Any, v: Any, o: Any, lse: Any, factor: Any) -> Any:
        return _aten._scaled_dot_product_cudnn_attention_backward(
            dout, q, k, v, o, lse[..., None], *_no_dropout(q), None, None, None, q.shape[2],
            k.shape[2], 0.0, False, scale=factor,
        )  # fmt: skip

    _gradient_on_gpu(backward, scale, (dout, q, k, v, o), lse, (dq, dk, dv))


_BY_ROWS = 2  # layouts before it: contiguous, and rows apart


def _common(asked: Asked) -> str | None:
    if any(size == 0 for size in asked.letters.values()):
        return "a size is 0"
    if asked.letters["D"] != asked.letters["Dv"]:
        return "heads of q and v differ"
    for name, layout in asked.layouts.items():
        if layout >= _BY_ROWS:  # those behind may have steps below 0, which torch has not
            return f"{name} has rows in another order"
    for name in ("bias", "dlse"):
        if name in asked.dtypes:
            return f"takes no {name}"
    for name in ("window", "softcap"):
        if asked.scalars.get(name):
            return f"takes no {name}"
    return None


def _dense(asked: Asked) -> str | None:
    if asked.scalars["causal"] and asked.letters["S"] != asked.letters["L"]:
        return "torch aligns a causal mask top left, where S is not L"
    return _common(asked)


def _on_cpus(asked: Asked) -> str | None:
    if next(iter(asked.dtypes.values())) != "f32":
        return "torch's sums of 16 bits are less exact than asked"
    return _dense(asked) if "S" in asked.letters else _common(asked)


def _on_gpus(asked: Asked) -> str | None:
    if asked.dtypes["q"] not in ("f16", "bf16"):
        return "q is not of 16 bits"
    if asked.letters["D"] % 8 or asked.letters["D"] > 256:
        return "heads are no multiple of 8 up to 256"
    return _dense(asked)


def _gradient_on_gpus(asked: Asked) -> str | None:
    if asked.scalars["causal"]:
        return "torch spreads NaN of a row to keys that the row does not see"
    return _on_gpus(asked)


RIVALS = [
    Rival("flash_attention_lse", "torch_sdpa", "cpu", _on_cpus, torch_sdpa),
    Rival("flash_attention_lse", "torch_flash", "cuda", _on_gpus, torch_flash),
    Rival("flash_attention_lse", "torch_cudnn", "cuda", _on_gpus, torch_cudnn),
    Rival("flash_attention_varlen_lse", "torch_sdpa", "cpu", _on_cpus, torch_sdpa_varlen),
    Rival("flash_attention_backward", "torch_sdpa", "cpu", _on_cpus, torch_sdpa_backward),
    Rival(
        "flash_attention_backward", "torch_flash", "cuda", _gradient_on_gpus, torch_flash_backward
    ),
    Rival(
        "flash_attention_backward", "torch_cudnn", "cuda", _gradient_on_gpus, torch_cudnn_backward
    ),
]
