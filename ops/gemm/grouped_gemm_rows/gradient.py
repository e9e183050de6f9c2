"""The gradient of grouped_gemm_rows, by grouped products: da = dout · weight, dweight = doutᵀ · a.

Rows in no group have no result and a gradient of 0. Read next:
../../../python/dlblas/torch/_autograd.py.
"""

from __future__ import annotations

import torch

from .gemm_gradient import rows_of_groups  # ops/gemm/gradient.py


def grouped_gemm_rows(
    a: torch.Tensor,
    weight: torch.Tensor,
    offsets: torch.Tensor,
    out_dtype: torch.dtype | None,
    dout: torch.Tensor | None,
) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
    if dout is None:
        return None, None, None
    dout = dout.to(a.dtype)
    da = rows_of_groups(dout, weight.transpose(1, 2), offsets)
    dweight = torch.ops.dlblas.grouped_gemm_k(dout, a, offsets)
    return da, dweight, None


GRADIENTS = {"grouped_gemm_rows": grouped_gemm_rows}
