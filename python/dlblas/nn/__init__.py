"""Modules over the operators, with the parameters and state_dict of torch's own.

torch is imported by the first use of a module, not by ``import dlblas.nn``. Read next: rms_norm.py.
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from .fused_linear_cross_entropy import FusedLinearCrossEntropy
    from .fused_rmsnorm_rope import FusedRMSNormRoPE
    from .gated import GeluAndMul, SiluAndMul
    from .group_norm import GroupNorm
    from .layer_norm import LayerNorm
    from .llama_rms_norm import LlamaRMSNorm
    from .rms_norm import RMSNorm

__all__ = [
    "FusedLinearCrossEntropy",
    "FusedRMSNormRoPE",
    "GeluAndMul",
    "GroupNorm",
    "LayerNorm",
    "LlamaRMSNorm",
    "RMSNorm",
    "SiluAndMul",
]

_FILES = {
    "FusedLinearCrossEntropy": "fused_linear_cross_entropy",
    "FusedRMSNormRoPE": "fused_rmsnorm_rope",
    "GeluAndMul": "gated",
    "GroupNorm": "group_norm",
    "LayerNorm": "layer_norm",
    "LlamaRMSNorm": "llama_rms_norm",
    "RMSNorm": "rms_norm",
    "SiluAndMul": "gated",
}

if not _typing.TYPE_CHECKING:  # checkers know the names above, and no others

    def __getattr__(name: str) -> _typing.Any:
        if name not in _FILES:
            raise AttributeError(f"module 'dlblas.nn' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"dlblas.nn.{_FILES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
