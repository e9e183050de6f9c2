"""``dlblas.kernels.fp8_gemm``: the block-scaled product under DLBlas's path.

Read next: ../../../ops/gemm/scaled_mm_block/scaled_mm_block.py.
"""

from __future__ import annotations

from typing import Any

from .._arguments import hinted
from .._functions import FUNCTIONS
from .._given import as_matrix, need_arrays
from ..errors import Error, ShapeMismatchError, renamed

__all__ = ["call", "fp8_gemm"]

_scaled_mm_block = FUNCTIONS["scaled_mm_block"].call
_CALLED = {"a": "a", "b": "b", "a_scale": "a_s", "b_scale": "b_s"}


@hinted
def fp8_gemm(a: Any, b: Any, a_s: Any, b_s: Any) -> Any:
    """``a · bᵀ`` of f8e4m3 codes, with 1×128 scales for a and 128×128 scales for b.

    a ``[…, K]``, b ``[N, K]``, a_s f32 ``[…, ceil(K / 128)]``, b_s f32 ``[ceil(N / 128),
    ceil(K / 128)]`` -> ``[…, N]`` in ``torch.get_default_dtype()``; for f64, converted from f32.
    Sums of 128 terms are multiplied by their scales and accumulated in f32. N and K need not be
    multiples of 128. ``dlblas.scaled_mm`` has a bias and any ``out_dtype``. Errors: those of
    ``scaled_mm``.
    """
    import torch

    need_arrays("fp8_gemm", a=a, b=b, a_s=a_s, b_s=b_s)
    lead = tuple(a.shape[:-1])
    rows, scales = a, a_s
    if len(b.shape) != 2 or len(b_s.shape) != 2:
        name, got = ("b", b) if len(b.shape) != 2 else ("b_s", b_s)
        expected = {"b": "[N, K]", "b_s": "[ceil(N / 128), ceil(K / 128)]"}[name]
        raise ShapeMismatchError.from_library(
            f"fp8_gemm: {name} is no matrix; expected {expected}, got {tuple(got.shape)}",
            "fp8_gemm", name, expected, str(tuple(got.shape)),
        )  # fmt: skip
    if lead and tuple(a_s.shape[:-1]) == lead:  # else the operator says what does not fit
        rows, scales = as_matrix(a), as_matrix(a_s)
    wanted = torch.get_default_dtype()
    made = torch.float32 if wanted is torch.float64 else wanted
    try:
        out = _scaled_mm_block(rows, b.swapaxes(0, 1), scales, b_s.swapaxes(0, 1), out_dtype=made)
    except Error as error:
        argument = _CALLED.get(error.argument, "")
        raise renamed(error, "fp8_gemm", argument, _CALLED) from error
    if made is not wanted:
        out = out.to(wanted) if hasattr(out, "new_empty") else out.astype("float64")
    return out.reshape((*lead, b.shape[0]))


call = fp8_gemm
