"""``validate_*``: what the kernels of Triton Fused Operators require of inputs, and their errors.

They require contiguous CUDA tensors on one device; the operators of dlblas take CPU and strided
tensors too, so nothing in the library calls these. Tensors are checked for device, dtype, layout
and shape, in that order (for an FP8 product, the output's dtype after the layout); functions that
read sizes return them. Read next: models.py, ../errors.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .._arguments import hinted
from ..errors import ArgumentError, DeviceError, ShapeMismatchError, UnsupportedDtypeError

__all__ = [
    "SUPPORTED_DTYPES_FLOAT",
    "SUPPORTED_DTYPES_FP8",
    "VALID_ACTIVATIONS",
    "validate_eps",
    "validate_fp8_gemm_inputs",
    "validate_fp8_quantize_inputs",
    "validate_gated_mlp_inputs",
    "validate_head_dim",
    "validate_positive_dimensions",
    "validate_rmsnorm_rope_inputs",
]

VALID_ACTIVATIONS = ("silu", "gelu")
SUPPORTED_DTYPES_FLOAT = [torch.float16, torch.bfloat16, torch.float32]
# uint8 held f8 codes before torch had an f8 dtype.
SUPPORTED_DTYPES_FP8 = [torch.uint8, torch.float8_e4m3fn]

Dims = tuple[int | None, ...]


def _on_one_gpu(tensors: dict[str, torch.Tensor]) -> None:
    for name, tensor in tensors.items():
        if tensor.device.type != "cuda":
            raise DeviceError("cuda", str(tensor.device), name)
    first = next(iter(tensors.values())).device
    for name, tensor in tensors.items():
        if tensor.device != first:
            raise DeviceError(str(first), str(tensor.device), name)


def _of_dtype(name: str, dtype: torch.dtype, allowed: Sequence[torch.dtype]) -> None:
    if dtype not in allowed:
        raise UnsupportedDtypeError(dtype, list(allowed), name)


def _without_gaps(tensors: dict[str, torch.Tensor]) -> None:
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ArgumentError(
                f"{name} is not contiguous; expected strides of a contiguous {tuple(tensor.shape)},"
                f" got {tensor.stride()}; call .contiguous()"
            )


def _shaped(name: str, tensor: torch.Tensor, expected: Dims) -> None:
    """``None`` matches any size."""
    shape = tuple(tensor.shape)
    fits = len(shape) == len(expected)
    if not fits or any(e is not None and e != s for e, s in zip(expected, shape, strict=True)):
        raise ShapeMismatchError(expected, shape, name)


def _floats(tensors: dict[str, torch.Tensor]) -> None:
    _on_one_gpu(tensors)
    for name, tensor in tensors.items():
        _of_dtype(name, tensor.dtype, SUPPORTED_DTYPES_FLOAT)
    _without_gaps(tensors)


@hinted
def validate_rmsnorm_rope_inputs(
    x: torch.Tensor,
    weight: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    num_heads: int | None = None,
) -> tuple[int, int, int, int, int]:
    """x [B, S, C], weight [C], cos and sin [S, D] or [1, S, 1, D] → (B, S, C, D, heads)."""
    _floats({"x": x, "weight": weight, "cos": cos, "sin": sin})
    _shaped("x", x, (None, None, None))
    batch, length, width = x.shape
    _shaped("weight", weight, (width,))
    _shaped("cos", cos, (1, length, 1, None) if cos.dim() == 4 else (length, None))
    _shaped("sin", sin, tuple(cos.shape))
    head = cos.shape[-1]
    heads = width // head if num_heads is None and head else num_heads or 0
    if heads * head != width:
        raise ShapeMismatchError(
            f"x has {width} columns; expected heads of {head} (cos), got {heads} of them",
            expected=(None, None, heads * head),
            actual=tuple(x.shape),
            tensor_name="x",
        )
    return batch, length, width, head, heads


@hinted
def validate_gated_mlp_inputs(
    x: torch.Tensor,
    gate_weight: torch.Tensor,
    up_weight: torch.Tensor,
    activation: str = "silu",
) -> tuple[int, int, int, int]:
    """x [B, S, C], both weights [F, C] → (B, S, C, F)."""
    _floats({"x": x, "gate_weight": gate_weight, "up_weight": up_weight})
    if activation not in VALID_ACTIVATIONS:
        raise ArgumentError(
            f"activation is unknown; expected {' or '.join(VALID_ACTIVATIONS)}, got {activation}"
        )
    _shaped("x", x, (None, None, None))
    batch, length, width = x.shape
    _shaped("gate_weight", gate_weight, (None, width))
    _shaped("up_weight", up_weight, tuple(gate_weight.shape))
    return batch, length, width, gate_weight.shape[0]


@hinted
def validate_fp8_gemm_inputs(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scale: torch.Tensor | None = None,
    b_scale: torch.Tensor | None = None,
    output_dtype: torch.dtype = torch.float16,
) -> tuple[int, int, int]:
    """a [M, K] and b [K, N], f8 with a scale or floats → (M, N, K)."""
    _on_one_gpu({"a": a, "b": b})
    for name, tensor, scale in (("a", a, a_scale), ("b", b, b_scale)):
        if tensor.dtype in SUPPORTED_DTYPES_FP8 and scale is None:
            raise ArgumentError(
                f"{name}_scale is missing; expected the scale of {name} in {tensor.dtype}, "
                "got None; pass what quantize_fp8 returned"
            )
    given = {"a": a, "b": b, "a_scale": a_scale, "b_scale": b_scale}
    _on_one_gpu({name: tensor for name, tensor in given.items() if tensor is not None})
    _without_gaps({"a": a, "b": b})
    _of_dtype("output_dtype", output_dtype, SUPPORTED_DTYPES_FLOAT)
    _shaped("a", a, (None, None))
    _shaped("b", b, (a.shape[1], None))
    return a.shape[0], b.shape[1], a.shape[1]


@hinted
def validate_fp8_quantize_inputs(tensor: torch.Tensor, scale: torch.Tensor | None = None) -> None:
    """Requires floats of any shape; the scale, if given, must be a positive f32 scalar."""
    _floats({"tensor": tensor})
    if scale is None:
        return
    _on_one_gpu({"tensor": tensor, "scale": scale})
    _of_dtype("scale", scale.dtype, [torch.float32])
    if scale.numel() != 1:
        raise ShapeMismatchError((), tuple(scale.shape), "scale")
    if not scale.item() > 0:
        raise ArgumentError(f"scale is not positive; expected more than 0, got {scale.item()}")


def validate_positive_dimensions(**dims: int) -> None:
    """Requires every named size to be above 0."""
    for name, value in dims.items():
        if value <= 0:
            raise ArgumentError(f"{name} is not positive; expected at least 1, got {value}")


@hinted
def validate_head_dim(head_dim: int) -> None:
    """Requires an even ``head_dim``, because a rotation acts on pairs of elements."""
    if head_dim % 2 != 0:
        raise ArgumentError(f"head_dim is odd; expected an even number, got {head_dim}")


@hinted
def validate_eps(eps: float) -> None:
    """Requires a positive ``eps``, because it is added to a mean square."""
    if not eps > 0:
        raise ArgumentError(f"eps is not positive; expected more than 0, got {eps}")
