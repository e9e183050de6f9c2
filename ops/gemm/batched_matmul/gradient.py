"""The gradient of batched_matmul, built from batched products.

Read next: ops/gemm/gradient.py, batched_matmul.py (AUTOGRAD).
"""

from __future__ import annotations

import torch

from .gemm_gradient import of_batch  # ops/gemm/gradient.py

_Tensor = torch.Tensor | None


def batched_matmul(
    a: torch.Tensor, b: torch.Tensor, activation: str, bias: _Tensor, out_dtype: torch.dtype | None,
    dout: torch.Tensor,
) -> tuple[_Tensor, _Tensor, _Tensor]:  # fmt: skip
    """Gradients of a, b and bias."""
    return of_batch(a, b, activation, bias, dout, turned=False)


GRADIENTS = {"batched_matmul": batched_matmul}
