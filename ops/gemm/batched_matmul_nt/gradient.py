"""The gradient of batched_matmul_nt, built from batched products.

Read next: ops/gemm/gradient.py, batched_matmul_nt.py (AUTOGRAD).
"""

from __future__ import annotations

import torch

from .gemm_gradient import of_batch  # ops/gemm/gradient.py

_Tensor = torch.Tensor | None


def batched_matmul_nt(
    a: torch.Tensor, b: torch.Tensor, activation: str, bias: _Tensor, out_dtype: torch.dtype | None,
    dout: torch.Tensor,
) -> tuple[_Tensor, _Tensor, _Tensor]:  # fmt: skip
    """Gradients of a, b and bias."""
    return of_batch(a, b, activation, bias, dout, turned=True)


GRADIENTS = {"batched_matmul_nt": batched_matmul_nt}
