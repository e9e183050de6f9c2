"""``quantize_fp8`` and ``dequantize_fp8``: e4m3 with one scale per tensor, which *multiplies*.

``q = x · scale`` here, as in Triton Fused Operators; the library's own scales divide. Only
``quantize_fp8_with_overflow_handling`` waits for the GPU, because it reads the tensor's values.
Each has a ``*_reference`` in torch, to read and to test against. Read next: ../models.py
(FP8Format), ops/quant/api.py.
"""

from __future__ import annotations

from operator import index

import torch

from ..._arguments import hinted
from ..._faces import dequantize, quantize
from ..._functions import FUNCTIONS
from ..._given import need_arrays
from ...errors import (
    ArgumentError,
    ArgumentTypeError,
    NumericalOverflowError,
    ShapeMismatchError,
    UnsupportedDtypeError,
    UnsupportedError,
)
from ..models import FP8Format

__all__ = [
    "dequantize_fp8",
    "dequantize_fp8_reference",
    "fp8_dequantize_reference",
    "fp8_quantize_reference",
    "quantize_fp8",
    "quantize_fp8_reference",
    "quantize_fp8_with_overflow_handling",
    "quantize_fp8_with_overflow_handling_reference",
]

_quantize_static = FUNCTIONS["quantize_static"].call
_MIN_SCALE = 2.0**-126  # of a scale whose inverse is used: that of a denormal one may be infinite


def _one(scale: torch.Tensor | float, like: torch.Tensor) -> torch.Tensor:
    """The scale as f32 without dimensions; a number becomes a tensor on the device of ``like``."""
    if not isinstance(scale, torch.Tensor):
        if not hasattr(type(scale), "__float__") or getattr(scale, "shape", ()) != ():
            expected = "a number, or a tensor with one element"
            got = "None" if scale is None else type(scale).__name__
            raise ArgumentTypeError.from_library(
                f"scale is of another type; expected {expected}, got {got}",
                "", "scale", expected, got,
            )  # fmt: skip
        value = float(scale) if hasattr(scale, "shape") else scale  # NumPy's
        return torch.full((), value, dtype=torch.float32, device=like.device)
    if scale.numel() != 1:
        raise ShapeMismatchError((), tuple(scale.shape), "scale")
    return scale.reshape(()).float()


@hinted
def quantize_fp8(
    tensor: torch.Tensor, scale: torch.Tensor | float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """``(q, scale)``: ``q = tensor · scale`` in float8_e4m3fn, to nearest even, saturated at ±448.

    tensor is f32, f16 or bf16 with at least one dimension. scale is a number, or a tensor with one
    element; by default ``448 / max |tensor|``, within two roundings of f32, but 1 if all values are
    zero, and at most 2¹²⁶. The returned scale is f32 without dimensions. A scale given as a tensor
    and below 2⁻¹²⁸, whose inverse f32 cannot represent, gives zeros: its value is not read. Errors:
    ArgumentTypeError and ShapeMismatchError for another scale; those of ``dlblas.quantize``.
    """
    need_arrays("quantize_fp8", tensor=tensor)
    if scale is None:
        q, step = quantize(tensor, "tensor", torch.float8_e4m3fn)
        return q, 1 / step
    one = _one(scale, tensor)
    if not isinstance(scale, torch.Tensor) and 0 < abs(scale) < _MIN_SCALE:
        return _quantize_static(tensor.float() * one, 1.0, torch.float8_e4m3fn), one
    return _quantize_static(tensor, 1 / one, torch.float8_e4m3fn), one


@hinted
def quantize_fp8_with_overflow_handling(
    tensor: torch.Tensor, scale: torch.Tensor | float | None = None, max_attempts: int = 3
) -> tuple[torch.Tensor, torch.Tensor]:
    """``quantize_fp8`` with a scale that is halved, at most ``max_attempts`` times, while values
    overflow e4m3: ``max |tensor| · scale > 448 · (1 + 2⁻²⁰)``, where 2⁻²⁰ allows for rounding.

    Returns ``(q, scale)`` with the scale that was used. It reads the largest value, so it waits for
    the GPU. Errors: UnsupportedError while a CUDA graph is captured; NumericalOverflowError if
    values overflow after all halvings, as an infinity always does; ArgumentError for a negative
    ``max_attempts``; those of ``quantize_fp8``. NaN stays NaN.
    """
    name = "quantize_fp8_with_overflow_handling"
    max_attempts = index(max_attempts)
    if max_attempts < 0:
        raise ArgumentError.from_library(
            f"{name}: max_attempts is out of range; expected 0 or more, got {max_attempts}",
            name, "max_attempts", "0 or more", str(max_attempts),
        )  # fmt: skip
    if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
        raise UnsupportedError.from_library(
            f"{name}: it reads the tensor's largest value, which no CUDA graph can capture; "
            "call quantize_fp8",
            name, "tensor", "no capture", "a capture",
        )  # fmt: skip
    if scale is None:
        _, step = quantize(tensor, "tensor", torch.float8_e4m3fn)
        scale = 1 / step
    one = _one(scale, tensor)
    largest = float(tensor.abs().amax()) if tensor.numel() else 0.0
    factor = float(one)
    limit = FP8Format.max_value * (1 + 2.0**-20)
    overflows = largest == float("inf") or largest * factor > limit
    for _ in range(max_attempts):
        if not overflows:
            break
        factor /= 2
        overflows = largest == float("inf") or largest * factor > limit
    if overflows:
        raise NumericalOverflowError(
            f"{name}: values leave e4m3 after {max_attempts} halvings; expected "
            f"max |tensor| · scale up to {FP8Format.max_value}, got {largest:g} · {factor:g}; "
            "hand over a smaller scale",
            max_value=largest,
            scale=factor,
            attempts=max_attempts,
        )
    return quantize_fp8(tensor, factor)


@hinted
def dequantize_fp8(
    tensor: torch.Tensor,
    scale: torch.Tensor | float,
    output_dtype: torch.dtype = torch.float16,
) -> torch.Tensor:
    """``tensor / scale`` in ``output_dtype`` (f16, bf16 or f32): the inverse of ``quantize_fp8``.

    tensor is float8_e4m3fn, or uint8 with its bits. The quotient is computed in f32 as a product
    with ``1 / scale``, and rounded once to f16 or bf16. Errors: UnsupportedDtypeError for another
    tensor dtype, ShapeMismatchError for a scale with more than one element; those of
    ``dlblas.dequantize``.
    """
    if tensor.dtype == torch.uint8:
        tensor = tensor.view(torch.float8_e4m3fn)
    if tensor.dtype != torch.float8_e4m3fn:
        raise UnsupportedDtypeError(tensor.dtype, [torch.uint8, torch.float8_e4m3fn], "tensor")
    y: torch.Tensor = dequantize(tensor, 1 / _one(scale, tensor), output_dtype)
    return y


@hinted
def quantize_fp8_reference(
    tensor: torch.Tensor, scale: torch.Tensor | float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """``quantize_fp8`` in plain torch. The reference of Triton Fused Operators stored
    ``round(127 · x / 448) + 128`` in bytes; here, as in the kernel, q is float8_e4m3fn."""
    if scale is None:
        largest = tensor.abs().amax().float() if tensor.numel() else tensor.new_zeros(()).float()
        scale = torch.where(largest == 0, 1.0, (448 / largest).clamp(max=2.0**126))
    one = _one(scale, tensor)
    return (tensor.float() * one).clamp(-448, 448).to(torch.float8_e4m3fn), one


@hinted
def quantize_fp8_with_overflow_handling_reference(
    tensor: torch.Tensor, scale: torch.Tensor | float | None = None, max_attempts: int = 3
) -> tuple[torch.Tensor, torch.Tensor]:
    """``quantize_fp8_with_overflow_handling`` in plain torch."""
    if scale is None:
        scale = quantize_fp8_reference(tensor)[1]
    one = _one(scale, tensor)
    largest = float(tensor.abs().amax()) if tensor.numel() else 0.0
    for halvings in range(max_attempts + 1):
        halved = one / 2**halvings
        overflows = largest * float(halved) > 448 * (1 + 2.0**-20)  # NaN is not above it
        if not overflows and largest != float("inf"):
            return quantize_fp8_reference(tensor, halved)
    raise NumericalOverflowError(f"values leave e4m3 after {max_attempts} halvings")


@hinted
def dequantize_fp8_reference(
    tensor: torch.Tensor,
    scale: torch.Tensor | float,
    output_dtype: torch.dtype = torch.float16,
) -> torch.Tensor:
    """``dequantize_fp8`` in plain torch: a quotient in f32, rounded once."""
    return (tensor.view(torch.float8_e4m3fn).float() / _one(scale, tensor)).to(output_dtype)


# The names in Triton Fused Operators.
fp8_quantize_reference, fp8_dequantize_reference = quantize_fp8_reference, dequantize_fp8_reference
