"""``dlblas.sample`` and the filters that serving engines call beside it. Parameters are numbers for
all rows or arrays with one value per row.

In: arrays of any package that the operators take. Out: what they return; nothing is computed here,
and torch.compile traces it. Read next: sample_rows/, filter_rows/.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .._functions import FUNCTIONS
from .._given import in_f32, integer, is_numpy
from .._results import check_shape
from .._spread import spread
from ..errors import ArgumentError, ArgumentTypeError

__all__ = ["sample", "top_k_mask_logits", "top_k_renorm", "top_p_renorm"]

IN_TORCH = {"sample": {"seed": "int", "offset": "int"}}
CALLED = {
    "sample": {"seeds": "seed", "offsets": "offset"},
    "top_k_mask_logits": {"x": "logits", "top_k": "top_k"},
    "top_k_renorm": {"x": "probs", "top_k": "top_k"},
    "top_p_renorm": {"x": "probs", "top_p": "top_p"},
}

_sample, _filter = FUNCTIONS["sample_rows"].call, FUNCTIONS["filter_rows"].call


def _is_array(value: Any) -> bool:
    """Whether this is an array; NumPy's numbers are none. Numbers first: torch.compile has symbols
    for them, which it cannot ask for attributes."""
    if isinstance(value, (int, float)) or not hasattr(value, "shape"):
        return False
    return not is_numpy(value) or len(value.shape) > 0


def _each(op: str, name: str, x: Any, value: Any, dtype: str = "float32") -> Any:
    """A number, or an array without dimensions, as one value per row of x; other arrays and None
    unchanged."""
    if value is None:
        return None
    lead = tuple(x.shape[:-1])
    if _is_array(value):
        return value if len(value.shape) else spread(value, lead)
    if dtype == "int32":
        value = _count(op, name, value)
    elif not isinstance(value, (int, float)) and not hasattr(type(value), "__float__"):
        expected, got = "a number, or an array with one per row", type(value).__name__
        raise ArgumentTypeError.from_library(
            f"{op}: {name} is of another type; expected {expected}, got {got}",
            op, name, expected, got,
        )  # fmt: skip
    else:
        value = in_f32(value)
    if hasattr(x, "new_full"):
        import torch

        return x.new_full(lead, value, dtype=getattr(torch, dtype))
    return import_module("numpy").full(lead, value, dtype)


def _count(op: str, name: str, value: Any) -> int:
    """An integer that i32 holds."""
    count = integer(op, name, value, "an integer, or an array with one per row")
    if not -(2**31) <= count < 2**31:
        expected, got = "an integer of 32 bits", "one beyond 2^31"
        raise ArgumentError.from_library(
            f"{op}: {name} is out of range; expected {expected}, got {got}", op, name, expected, got
        )
    return count


def sample(
    x: Any, temperature: Any = None, top_k: Any = None, top_p: Any = None, min_p: Any = None,
    seed: Any = 0, offset: Any = 0, *, probs: bool = False, out: Any = None,
) -> Any:  # fmt: skip
    """Draws one token per row of logits (with ``probs``, of probabilities): ids ``[*T]`` i32.

    ``p = softmax(x / temperature)``. *top-k* keeps elements no less than the k-th largest; then
    *top-p* keeps an element if those larger than it have less than top_p of the kept mass, and
    *min-p* keeps elements of at least min_p times the largest. The id is the first column whose
    running sum of kept p exceeds u times their total. A temperature of 0 selects the first of the
    largest.

    x ``[*T, V]`` f32, f16 or bf16. temperature, top_k, top_p and min_p are numbers, arrays with one
    number per row or without dimensions (f32; top_k i32 or i64), or None. ``seed`` and ``offset``
    are ints or i64 arrays ``[*T]``. u comes from Philox4x32-10 of seed, offset and row; with an
    array of seeds, of seed and offset alone. The same arguments give the same ids, so use a new
    offset for each draw. The arrays' values may change between replays of a CUDA graph. A row that
    holds NaN or +inf, or no number at all, gives −1. ``out``: where the ids go. Errors: those of
    ``sample_rows``. Source: as in FlashInfer, vLLM and SGLang.
    """
    op = "sample"
    seeds = seed if _is_array(seed) else None
    offsets = offset if _is_array(offset) else None
    given = (
        x, _each(op, "temperature", x, temperature), _each(op, "top_k", x, top_k, "int32"),
        _each(op, "top_p", x, top_p), _each(op, "min_p", x, min_p), seeds, offsets,
        0 if seeds is not None else seed, 0 if offsets is not None else offset, probs,
    )  # fmt: skip
    if out is None:
        return _sample(*given)[..., 0]
    check_shape(op, out, tuple(x.shape[:-1]))
    _sample(*given, out=out[..., None])
    return out


def top_k_renorm(probs: Any, top_k: Any, *, out: Any = None) -> Any:
    """Keeps the top_k largest probabilities of each row, and ties with the last, divided by their
    sum; 0 elsewhere. probs ``[*T, V]``, top_k a number or ``[*T]``; y has probs' dtype. ``out``:
    where y goes.
    """
    count = _each("top_k_renorm", "top_k", probs, top_k, "int32")
    return _filter(probs, count, None, None, True, True, out=out)


def top_p_renorm(probs: Any, top_p: Any, *, out: Any = None) -> Any:
    """Keeps probabilities if larger ones have less than top_p of the row's mass, divided by the sum
    of those kept; 0 elsewhere. probs ``[*T, V]``, top_p a number or ``[*T]``; y has probs' dtype.
    ``out``: where y goes.
    """
    mass = _each("top_p_renorm", "top_p", probs, top_p)
    return _filter(probs, None, mass, None, True, True, out=out)


def top_k_mask_logits(logits: Any, top_k: Any, *, out: Any = None) -> Any:
    """Keeps the top_k largest logits of each row, and ties with the last; −inf elsewhere. logits
    ``[*T, V]``, top_k a number or ``[*T]``; y has logits' dtype. ``out``: where y goes.
    """
    return _filter(logits, _each("top_k_mask_logits", "top_k", logits, top_k, "int32"), out=out)
