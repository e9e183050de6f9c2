"""The gradient of grouped_gemm_k, by products of the groups' rows: da[m] = b[m] · dout[e]ᵀ,
db[m] = a[m] · dout[e].

Rows in no group have a gradient of 0. Read next: ../grouped_gemm_rows/gradient.py.
"""

from __future__ import annotations

import torch

from .gemm_gradient import rows_of_groups as product  # ops/gemm/gradient.py


def grouped_gemm_k(
    a: torch.Tensor,
    b: torch.Tensor,
    offsets: torch.Tensor,
    out_dtype: torch.dtype | None,
    dout: torch.Tensor | None,
) -> tuple[torch.Tensor | None, torch.Tensor | None, None]:
    if dout is None:
        return None, None, None
    dout = dout.to(a.dtype)
    da = product(b, dout, offsets) if a.requires_grad else None
    db = product(a, dout.transpose(1, 2), offsets) if b.requires_grad else None
    return da, db, None


GRADIENTS = {"grouped_gemm_k": grouped_gemm_k}
