"""The configuration spaces of Triton Fused Operators, as data: knob → values.

Read next: tuner.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from ..._arguments import hinted

Config = dict[str, Any]

RMSNORM_ROPE_CONFIGS: dict[str, list[Any]] = {  # 45 points
    "BLOCK_SIZE": [64, 128, 256, 512, 1024],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3],
}
GATED_MLP_CONFIGS: dict[str, list[Any]] = {  # 108 points
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}
FP8_GEMM_CONFIGS: dict[str, list[Any]] = {  # 216 points
    "BLOCK_M": [64, 128, 256],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [32, 64],
    "GROUP_SIZE_M": [4, 8],
    "num_warps": [4, 8],
    "num_stages": [3, 4, 5],
}

_DEFAULTS: dict[str, Config] = {
    "rmsnorm_rope": {"BLOCK_SIZE": 128, "num_warps": 4, "num_stages": 2},
    "gated_mlp": {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3},
    "fp8_gemm": {
        "BLOCK_M": 128,
        "BLOCK_N": 128,
        "BLOCK_K": 32,
        "GROUP_SIZE_M": 8,
        "num_warps": 4,
        "num_stages": 4,
    },
}


@hinted
def generate_configs(config_space: Mapping[str, Iterable[Any]]) -> list[Config]:
    """Every point of a space; the last knob varies fastest."""
    return [
        dict(zip(config_space, point, strict=True)) for point in product(*config_space.values())
    ]


@hinted
def filter_valid_configs(
    configs: Iterable[Config],
    hidden_dim: int | None = None,
    intermediate_dim: int | None = None,  # no knob of these spaces depends on it
    M: int | None = None,  # noqa: N803 - their names
    N: int | None = None,  # noqa: N803
    K: int | None = None,  # noqa: N803
) -> list[Config]:
    """The configurations whose blocks are not far larger than the problem: at most twice ``M`` and
    ``N``, at most ``K`` and ``hidden_dim``."""
    most = {
        "BLOCK_SIZE": hidden_dim,
        "BLOCK_M": None if M is None else 2 * M,
        "BLOCK_N": None if N is None else 2 * N,
        "BLOCK_K": K,
    }
    limits = {knob: limit for knob, limit in most.items() if limit is not None}
    return [c for c in configs if all(c.get(knob, 0) <= most for knob, most in limits.items())]


@hinted
def get_default_config(kernel_type: str) -> Config:
    """The default of "rmsnorm_rope", "gated_mlp" or "fp8_gemm"; empty for any other."""
    return dict(_DEFAULTS.get(kernel_type, {}))
