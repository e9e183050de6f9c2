"""The names of DLBlas: thin wrappers of the operators with DLBlas's argument orders.

Each name is a module. A few are not in this version and say so (../_absent.py).
"""

import typing as _typing

_MODULES = (
    "activation", "add_rms_norm", "apply_rotary_pos_emb", "ffn", "flash_attention_v2", "fp8_gemm",
    "fused_moe", "fused_rotary_and_fa", "fused_rotary_emb", "layernorm_gated", "matmul",
    "partial_rotary_emb", "rms_norm", "selective_scan", "selective_state_update", "topk_gating",
)  # fmt: skip


def __getattr__(name: str) -> _typing.Any:
    if name not in _MODULES:
        from dlblas import _unknown

        _unknown.refuse(__name__, name)
    from importlib import import_module

    return import_module(f"dlblas.kernels.{name}")


def __dir__() -> list[str]:
    return list(_MODULES)
