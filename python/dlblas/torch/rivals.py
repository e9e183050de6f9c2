"""torch's own attention as candidates of ``flash_attention_lse``: ``import dlblas.torch.rivals``.

In: nothing; importing registers ``torch_sdpa`` (CPUs), ``torch_flash`` and ``torch_cudnn`` (GPUs).
Out: candidates that are asked, searched, checked by the oracle, timed and explained like any
other. It is not imported by itself: a search's worker would import torch each time. From a shell:
``dlblas --import dlblas.torch.rivals tune flash_attention_lse …``. Read next: ../own/_register.py.
"""

from __future__ import annotations

from typing import Any

import torch

from ..own import register

__all__ = ["torch_cudnn", "torch_flash", "torch_sdpa"]

_aten = torch.ops.aten


def _common(problem: Any) -> str | None:
    sizes = problem.letters
    if any(size == 0 for size in sizes.values()):
        return "a size is 0"
    if sizes["D"] != sizes["Dv"]:
        return "heads of q and v differ"
    if problem.scalars["causal"] and sizes["S"] != sizes["L"]:
        return "torch aligns a causal mask top left, where S is not L"
    return None


def _on_gpus(problem: Any) -> str | None:
    if problem.dtypes["q"] not in ("f16", "bf16"):
        return "q is not of 16 bits"
    if problem.letters["D"] % 8 or problem.letters["D"] > 256:
        return "heads are no multiple of 8 up to 256"
    if problem.scalars["causal"]:
        return "a NaN of a value that a query does not see would reach it"
    return _common(problem)


def _signed(q: Any, scale: float) -> tuple[Any, float | None]:
    """torch takes the largest product before it multiplies: the factor must be positive."""
    if scale == 0:
        return q, None
    return (-q, -scale) if scale < 0 else (q, scale)


@register("flash_attention_lse", "torch_sdpa", devices="cpu", arrays="torch", supports=_common)
def torch_sdpa(q: Any, k: Any, v: Any, causal: bool, scale: float, o: Any, lse: Any) -> None:
    """torch's attention on CPUs: heads of q over one of k are heads of a batch of Hkv, without a
    copy of k. Keys that are not finite are met by the queries alone that see them."""
    q, factor = _signed(q, scale)
    grouped = k.shape[2], q.shape[2] // k.shape[2]
    queries, made = (t.unflatten(2, grouped).permute(0, 2, 3, 1, 4) for t in (q, o))
    sums = lse.unflatten(1, grouped)
    length = step = q.shape[1]
    if causal and not (torch.isfinite(k).all() and torch.isfinite(v).all()):
        step = 1
    for b in range(q.shape[0]):
        keys, values = (t[b].transpose(0, 1)[:, None] for t in (k, v))
        for s in range(0, length, step):
            seen = slice(0, s + step if causal else None)
            part, its = _aten._scaled_dot_product_flash_attention_for_cpu(
                queries[b, :, :, s : s + step],
                keys[:, :, seen].expand(*grouped, -1, -1),
                values[:, :, seen].expand(*grouped, -1, -1),
                0.0, causal and step == length, scale=factor,
            )  # fmt: skip
            made[b, :, :, s : s + step] = part
            sums[b, :, :, s : s + step] = its


@register("flash_attention_lse", "torch_flash", devices="cuda", arrays="torch", supports=_on_gpus)
def torch_flash(q: Any, k: Any, v: Any, causal: bool, scale: float, o: Any, lse: Any) -> None:
    """FlashAttention-2, as torch has it. Not run on a GPU yet."""
    q, factor = _signed(q, scale)
    made = _aten._scaled_dot_product_flash_attention(
        *(t.transpose(1, 2) for t in (q, k, v)), 0.0, causal, False, scale=factor
    )
    o.copy_(made[0].transpose(1, 2))
    lse.copy_(made[1].reshape(lse.shape))


@register("flash_attention_lse", "torch_cudnn", devices="cuda", arrays="torch", supports=_on_gpus)
def torch_cudnn(q: Any, k: Any, v: Any, causal: bool, scale: float, o: Any, lse: Any) -> None:
    """cuDNN's attention, by torch. Not run on a GPU yet."""
    q, factor = _signed(q, scale)
    made = _aten._scaled_dot_product_cudnn_attention(
        *(t.transpose(1, 2) for t in (q, k, v)), None, True, 0.0, causal, False, scale=factor
    )
    o.copy_(made[0].transpose(1, 2))
    lse.copy_(made[1].reshape(lse.shape))
