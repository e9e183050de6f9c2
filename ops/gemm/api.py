"""``dlblas.bmm``: products of the matrices of a batch, a call of ``matmul`` for each; and
``dlblas.grouped_gemm``: products of groups of rows, each with a matrix of its own.

In: arrays of any package that the operators take. Out: what they return; nothing is computed here,
and torch.compile follows it. Read next: matmul/, grouped_gemm_rows/.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from .._empty import empty
from .._functions import FUNCTIONS
from ..errors import ArgumentError, ShapeMismatchError

__all__ = ["bmm", "grouped_gemm"]

_matmul = FUNCTIONS["matmul"].call
_grouped_rows = FUNCTIONS["grouped_gemm_rows"].call
_grouped_masked = FUNCTIONS["grouped_gemm_masked"].call
_grouped_k = FUNCTIONS["grouped_gemm_k"].call
_grouped_rows_block = FUNCTIONS["grouped_gemm_rows_block"].call
_grouped_masked_block = FUNCTIONS["grouped_gemm_masked_block"].call


def bmm(
    a: Any,
    b: Any,
    activation: str = "",
    *,
    bias: Any = None,
    out_dtype: Any = None,
    out: Any = None,
) -> Any:
    """Products of matrices with the same leading dimensions: ``out = act(a · b + bias)``.

    a ``[*B, M, K]``, b ``[*B, K, N]`` of any strides; bias ``[N]``, one for all -> out
    ``[*B, M, N]``. b ``[K, N]`` is ``matmul``, whose leading dimensions are rows; a batch of b is
    a call of it for each matrix, all of one key: searched once, and with one launch each on a GPU,
    where small matrices are slower than in a batched product. ``out``: where the result goes.
    Dtypes, activations, numerics and gradients (none) are those of ``matmul``. Errors:
    ShapeMismatchError for leading dimensions that differ; those of ``matmul``.
    Source: torch.bmm, NumPy's matmul.
    """
    if len(b.shape) <= 2:
        return _matmul(a, b, activation, bias=bias, out_dtype=out_dtype, out=out)
    lead = tuple(b.shape[:-2])
    if tuple(a.shape[:-2]) != lead or len(a.shape) < 2:
        expected, got = f"{lead} before the last two", str(tuple(a.shape))
        raise ShapeMismatchError.from_library(
            f"bmm: a has other leading dimensions than b; expected {expected}, got {got}; expand "
            "one of them",
            "bmm", "a", expected, got,
        )  # fmt: skip
    if out is None:
        out = empty(a, (*lead, a.shape[-2], b.shape[-1]), out_dtype or a.dtype, "bmm")
    for at in product(*map(range, lead)):
        _matmul(a[at], b[at], activation, bias=bias, out_dtype=out_dtype, out=out[at])
    return out


def grouped_gemm(
    a: Any,
    b: Any,
    offsets: Any = None,
    *,
    masked_m: Any = None,
    a_scale: Any = None,
    b_scale: Any = None,
    out_dtype: Any = None,
    out: Any = None,
) -> Any:
    """Products of groups of rows, each with a matrix of its own, in one launch.

    What a group is, shapes say:

    - a ``[M, K]``, b ``[E, N, K]``, offsets ``[E + 1]`` -> ``[M, N]``: rows ``offsets[e]`` to
      ``offsets[e + 1] - 1``, what ``moe_permute`` puts side by side: ``out[m] = a[m] · b[e]ᵀ``
      (``grouped_gemm_rows``). Has a gradient, in torch;
    - a ``[E, M, K]``, b ``[E, N, K]``, masked_m ``[E]`` -> ``[E, M, N]``: the first ``masked_m[e]``
      rows of each: ``out[e, m] = a[e, m] · b[e]ᵀ`` (``grouped_gemm_masked``);
    - a ``[M, N]``, b ``[M, K]``, offsets ``[E + 1]`` -> ``[E, N, K]``: sums over each group's rows,
      the gradient of its matrix: ``out[e] = Σ a[m]ᵀ · b[m]`` (``grouped_gemm_k``).

    With ``a_scale`` ``[M, ceil(K/128)]`` (masked ``[E, M, ceil(K/128)]``) and ``b_scale``
    ``[E, ceil(N/128), ceil(K/128)]``, f32, the first two take f8 codes, and out is bf16:
    ``(a_scale · b_scale) · (a · bᵀ)`` of every 128 of K, added in f32
    (``grouped_gemm_rows_block``, ``grouped_gemm_masked_block``).

    Matrices lie as a linear layer has them; ``[E, K, N]`` is ``b.transpose(1, 2)``, any strides are
    taken. Groups may be empty. f32, f16 or bf16, sums in f32, one rounding; the same results in
    every run. Rows that no group has are not written. Offsets and counts, i32 or i64, stay on the
    device: nothing waits for a GPU to see them, and what is launched depends on none of them.
    ``out``: where the result goes. Errors: ArgumentError for both of offsets and masked_m, or
    neither, and for one scale alone; ShapeMismatchError and others of the operators.
    Source: Gale et al., MegaBlocks, 2022; DeepGEMM, 2025.
    """
    if (offsets is None) == (masked_m is None):
        got = "neither" if offsets is None else "both"
        raise ArgumentError.from_library(
            f"grouped_gemm: offsets is ambiguous; expected offsets or masked_m, got {got}",
            "grouped_gemm", "offsets", "offsets or masked_m", got,
        )  # fmt: skip
    if (a_scale is None) != (b_scale is None):
        missing = "a_scale" if a_scale is None else "b_scale"
        raise ArgumentError.from_library(
            f"grouped_gemm: {missing} is missing; expected both scales or none, got one",
            "grouped_gemm", missing, "both scales or none", "one",
        )  # fmt: skip
    if a_scale is not None:
        scaled = _grouped_rows_block if masked_m is None else _grouped_masked_block
        sizes = offsets if masked_m is None else masked_m
        return scaled(a, b, sizes, a_scale, b_scale, out_dtype=out_dtype, out=out)
    if masked_m is not None:
        return _grouped_masked(a, b, masked_m, out_dtype=out_dtype, out=out)
    form = _grouped_k if len(b.shape) == 2 else _grouped_rows
    return form(a, b, offsets, out_dtype=out_dtype, out=out)
