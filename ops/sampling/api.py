"""``dlblas.sample`` and what serving engines call beside it: parameters of all rows as numbers, or
of each row as arrays.

In: arrays of any package that the operators take. Out: what they return; nothing is computed here,
and torch.compile follows it. Read next: sample_rows/, filter_rows/.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .._functions import FUNCTIONS

__all__ = ["sample", "top_k_mask_logits", "top_k_renorm", "top_p_renorm"]

IN_TORCH = {"sample": {"seed": "int", "offset": "int"}}
CALLED = {
    "sample": {"seeds": "seed", "offsets": "offset"},
    "top_k_mask_logits": {"x": "logits", "top_k": "top_k"},
    "top_k_renorm": {"x": "probs", "top_k": "top_k"},
    "top_p_renorm": {"x": "probs", "top_p": "top_p"},
}

_sample, _filter = FUNCTIONS["sample_rows"].call, FUNCTIONS["filter_rows"].call


def _each(x: Any, value: Any, dtype: str) -> Any:
    """A number as one of each row of x; an array as it is."""
    if value is None or hasattr(value, "shape"):
        return value
    lead = tuple(x.shape[:-1])
    if hasattr(x, "new_full"):
        import torch

        return x.new_full(lead, value, dtype=getattr(torch, dtype))
    return import_module("numpy").full(lead, value, dtype)


def sample(
    x: Any, temperature: Any = None, top_k: Any = None, top_p: Any = None, min_p: Any = None,
    seed: Any = 0, offset: Any = 0, *, probs: bool = False,
) -> Any:  # fmt: skip
    """A token of each row of logits (with ``probs``: of probabilities): ids ``[*T]`` i32.

    ``p = softmax(x / temperature)``. Of it *top-k* keeps elements no less than the k-th largest;
    then *top-p* those above which there is less than top_p of the kept mass, and *min-p* those of
    at least min_p times the largest. The id is the first column whose running sum of what is kept
    is above u of all of it. A temperature of 0 takes the first of the largest.

    x ``[*T, V]`` f32, f16 or bf16. temperature, top_k, top_p and min_p are numbers, arrays of a
    number for each row (f32; top_k i32 or i64), or None. ``seed`` and ``offset`` are ints, or i64
    arrays ``[*T]``: u comes from Philox4x32-10 of seed, offset and row, and, where seeds are of
    each row, of seed and offset alone. The same arguments give the same ids; take another offset
    for each draw. Arrays may change under a captured CUDA graph. −1 for a row with NaN or +inf, or
    without a number. Errors: those of ``sample_rows``. Source: as in FlashInfer, vLLM and SGLang.
    """
    seeds = seed if hasattr(seed, "shape") else None
    offsets = offset if hasattr(offset, "shape") else None
    return _sample(
        x, _each(x, temperature, "float32"), _each(x, top_k, "int32"), _each(x, top_p, "float32"),
        _each(x, min_p, "float32"), seeds, offsets, 0 if seeds is not None else seed,
        0 if offsets is not None else offset, probs,
    )[..., 0]  # fmt: skip


def top_k_renorm(probs: Any, top_k: Any) -> Any:
    """Probabilities of the top_k largest of each row, and of ties with the last, divided by their
    sum; 0 elsewhere. probs ``[*T, V]``, top_k a number or ``[*T]``; y has probs' dtype.
    """
    return _filter(probs, _each(probs, top_k, "int32"), None, None, True, True)


def top_p_renorm(probs: Any, top_p: Any) -> Any:
    """Probabilities above which there is less than top_p of each row's mass, divided by their sum;
    0 elsewhere. probs ``[*T, V]``, top_p a number or ``[*T]``; y has probs' dtype.
    """
    return _filter(probs, None, _each(probs, top_p, "float32"), None, True, True)


def top_k_mask_logits(logits: Any, top_k: Any) -> Any:
    """Logits with −inf for all but the top_k largest of each row, and ties with the last. logits
    ``[*T, V]``, top_k a number or ``[*T]``; y has logits' dtype.
    """
    return _filter(logits, _each(logits, top_k, "int32"))
