"""Names that users of DLBlas and Triton Fused Operators know, and this version does not have.

In: the full name that was asked for. Out: an ImportError that says what comes nearest, for
``from … import …`` passes on no other error's words. Read next: kernels/, triton_ops/api.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from . import _native, _planned

_ATTENTION = "torch.nn.functional.scaled_dot_product_attention on dlblas.rope's heads"
_GATED = "dlblas.matmul, then dlblas.silu_and_mul"
_FP8 = "dlblas.quantize and dlblas.dequantize around dlblas.matmul"
_MOE = "dlblas.moe_align, dlblas.moe_permute, dlblas.matmul an expert, and dlblas.moe_unpermute"

# The part of a package, module or function that is not here -> what comes nearest.
_NEAREST = {
    "flash_attention_v2": _ATTENTION,
    "fused_rotary_and_fa": _ATTENTION,
    "flash_attention": _ATTENTION,
    "ffn": f"dlblas.rms_norm, {_GATED}",
    "fp8_gemm": _FP8,
    "fp8_gemm_reference": _FP8,
    "FP8Linear": _FP8,
    "fused_gated_mlp": _GATED,
    "gated_mlp": _GATED,
    "gated_mlp_reference": _GATED,
    "fused_gated_mlp_reference": _GATED,
    "FusedGatedMLP": f"dlblas.nn.SiluAndMul behind one torch.nn.Linear, or {_GATED}",
    "fused_moe": _MOE,
    "ep_moe": f"{_MOE}; nothing here sends rows between GPUs",
}


def knows(name: str) -> bool:
    """Is it one of theirs?"""
    return name in _NEAREST


def refuse(name: str, part: str) -> NoReturn:
    """``name``: as it was asked for. ``part``: which part of it the table knows."""
    raise ImportError(
        f"{name} is not in dlblas {_native.version()}; nearest: {_NEAREST[part]}", name=name
    )


def whole(module: str) -> Callable[[str], Any]:
    """``__getattr__`` of a module that is here for its name alone."""
    part = module.rpartition(".")[2]

    def getattr_of(name: str) -> NoReturn:
        if name.startswith("__"):  # asked for by import machinery and tools
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        refuse(f"{module}.{name}", part)

    return getattr_of


def some(module: str) -> Callable[[str], Any]:
    """``__getattr__`` of a module that lacks a few names."""

    def getattr_of(name: str) -> NoReturn:
        if name in _NEAREST:
            refuse(f"{module}.{name}", name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return getattr_of


_NEAREST.update(_planned.NEAREST)
