"""Modules built on the operators, with the parameters and state_dict of torch's own.

torch is imported when a module is first used, not by ``import dlblas.nn``. Read next: rms_norm.py.
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from .fp8_linear import FP8Linear
    from .fused_linear_cross_entropy import FusedLinearCrossEntropy
    from .fused_rmsnorm_rope import FusedRMSNormRoPE
    from .gated import GeluAndMul, SiluAndMul
    from .gated_mlp import FusedGatedMLP, GatedMLP
    from .group_norm import GroupNorm
    from .layer_norm import LayerNorm
    from .linear import Linear
    from .llama_rms_norm import LlamaRMSNorm
    from .packed_linear import PackedLinear
    from .rms_norm import RMSNorm

__all__ = [
    "FP8Linear",
    "FusedGatedMLP",
    "FusedLinearCrossEntropy",
    "FusedRMSNormRoPE",
    "GatedMLP",
    "GeluAndMul",
    "GroupNorm",
    "LayerNorm",
    "Linear",
    "LlamaRMSNorm",
    "PackedLinear",
    "RMSNorm",
    "SiluAndMul",
]

_FILES = {
    "FP8Linear": "fp8_linear",
    "FusedGatedMLP": "gated_mlp",
    "FusedLinearCrossEntropy": "fused_linear_cross_entropy",
    "FusedRMSNormRoPE": "fused_rmsnorm_rope",
    "GatedMLP": "gated_mlp",
    "GeluAndMul": "gated",
    "GroupNorm": "group_norm",
    "LayerNorm": "layer_norm",
    "Linear": "linear",
    "LlamaRMSNorm": "llama_rms_norm",
    "PackedLinear": "packed_linear",
    "RMSNorm": "rms_norm",
    "SiluAndMul": "gated",
}

if not _typing.TYPE_CHECKING:  # checkers know the names above, and no others

    def __getattr__(name: str) -> _typing.Any:
        if name not in _FILES:
            from dlblas import _unknown

            _unknown.refuse(__name__, name)
        from importlib import import_module

        return getattr(import_module(f"dlblas.nn.{_FILES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
