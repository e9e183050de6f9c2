"""The gradient of grouped_gemm_gathered, by grouped products: da[t] = Σ dout[m] · weight over the
rows m that name t, dweight = doutᵀ · a[rows].

A row of a may be named many times: the terms are sorted by it, stably, and each row's are summed in
f32 as a group of their own, so every run gives the same bits. Rows in no group, and those that name
no row of a, contribute nothing. Read next: ../../../python/dlblas/torch/_autograd.py.
"""

from __future__ import annotations

import torch


def grouped_gemm_gathered(
    a: torch.Tensor,
    weight: torch.Tensor,
    offsets: torch.Tensor,
    rows: torch.Tensor,
    out_dtype: torch.dtype | None,
    dout: torch.Tensor | None,
) -> tuple[torch.Tensor | None, torch.Tensor | None, None, None]:
    if dout is None:
        return None, None, None, None
    ops, wide = torch.ops.dlblas, torch.float32
    dout, (sources, terms) = dout.to(a.dtype), a.shape
    da = dweight = None
    if a.requires_grad:
        each = dout.new_zeros((dout.shape[0], terms), dtype=wide)
        ops.grouped_gemm_rows_out(dout, weight.transpose(1, 2), offsets, each, out_dtype=wide)
        named, order = torch.sort(rows, stable=True)
        ends = torch.arange(sources + 1, device=rows.device, dtype=rows.dtype)
        ones = each.new_ones((dout.shape[0], 1))
        of_rows = torch.searchsorted(named, ends, out_int32=True)
        sums = ops.grouped_gemm_k(ones, each[order], of_rows, out_dtype=a.dtype)
        da = sums.reshape(sources, terms)
    if weight.requires_grad:
        zeros = torch.cat([a, a.new_zeros((1, terms))])  # its last row stands for those not named
        there = (rows >= 0) & (rows < sources)
        dweight = ops.grouped_gemm_k(dout, zeros[torch.where(there, rows, sources)], offsets)
    return da, dweight, None, None


GRADIENTS = {"grouped_gemm_gathered": grouped_gemm_gathered}
