"""LlamaRMSNorm: Hugging Face's class of that name, which Mistral and Qwen copy.

Read next: rms_norm.py, ../hf.py.
"""

from __future__ import annotations

from typing import Any

import torch

from .._arguments import hinted
from .rms_norm import RMSNorm


@hinted
class LlamaRMSNorm(RMSNorm):
    """``y = round(hidden_states · rsqrt(mean(hidden_states²) + eps)) · weight``.

    Arguments, ``weight``, ``variance_epsilon`` and ``state_dict`` are those of Hugging Face's
    class, and so are its roundings: to the dtype of hidden_states before and after the weight.
    """

    def __init__(
        self,
        hidden_size: int,
        eps: float = 1e-6,
        *,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(hidden_size, eps, cast_before_weight=True, device=device, dtype=dtype)

    @property
    def variance_epsilon(self) -> float:
        """``eps`` under Hugging Face's name."""
        return self.eps

    @variance_epsilon.setter
    def variance_epsilon(self, eps: float) -> None:
        self.eps = eps

    def forward(self, hidden_states: torch.Tensor, residual: torch.Tensor | None = None) -> Any:
        if residual is None:
            return super().forward(hidden_states)
        return super().forward(hidden_states, residual)
