"""``quantize_fp8`` and ``dequantize_fp8``: e4m3 with one scale per tensor, which *multiplies*.

``q = x · scale`` here, as in Triton Fused Operators; scales of the library divide. Nothing waits
for the GPU. Read next: models.py (FP8Format), ops/quant/api.py.
"""

from __future__ import annotations

import torch

from .._faces import dequantize, quantize
from .._functions import FUNCTIONS
from ..errors import ShapeMismatchError, UnsupportedDtypeError

__all__ = ["dequantize_fp8", "quantize_fp8"]

_quantize_static = FUNCTIONS["quantize_static"].call


def _one(scale: torch.Tensor | float, like: torch.Tensor) -> torch.Tensor:
    """The scale as f32 without dimensions, on the other tensor's device."""
    if not isinstance(scale, torch.Tensor):
        return torch.full((), scale, dtype=torch.float32, device=like.device)
    if scale.numel() != 1:
        raise ShapeMismatchError((), tuple(scale.shape), "scale")
    return scale.reshape(()).float()


def quantize_fp8(
    tensor: torch.Tensor, scale: torch.Tensor | float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """``(q, scale)``: ``q = tensor · scale`` in float8_e4m3fn, to nearest even, saturated at ±448.

    tensor is f32, f16 or bf16 of any shape. Without a scale it is ``448 / max |tensor|``, within
    two roundings of f32; 1 where all is zero, and at most 2¹²⁶. A scale is a number, or a tensor
    with one element. The scale returned is f32 without dimensions. Errors: ShapeMismatchError for
    a scale with more elements; those of ``dlblas.quantize``.
    """
    if scale is None:
        q, step = quantize(tensor, "tensor", torch.float8_e4m3fn)
        return q, 1 / step
    one = _one(scale, tensor)
    return _quantize_static(tensor, 1 / one, torch.float8_e4m3fn), one


def dequantize_fp8(
    tensor: torch.Tensor,
    scale: torch.Tensor | float,
    output_dtype: torch.dtype = torch.float16,
) -> torch.Tensor:
    """``tensor / scale`` in ``output_dtype`` (f16, bf16 or f32): what ``quantize_fp8`` gave.

    tensor is float8_e4m3fn, or uint8 with its bits. The quotient is a product with ``1 / scale`` in
    f32, rounded once to f16 and bf16. Errors: UnsupportedDtypeError for another tensor,
    ShapeMismatchError for a scale with more than one element; those of ``dlblas.dequantize``.
    """
    if tensor.dtype == torch.uint8:
        tensor = tensor.view(torch.float8_e4m3fn)
    if tensor.dtype != torch.float8_e4m3fn:
        raise UnsupportedDtypeError(tensor.dtype, [torch.uint8, torch.float8_e4m3fn], "tensor")
    y: torch.Tensor = dequantize(tensor, 1 / _one(scale, tensor), output_dtype)
    return y
