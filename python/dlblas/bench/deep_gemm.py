"""DeepGEMM's products as rivals, if the package is on PYTHONPATH; otherwise a call says why not.

Used by: gpu_products.py. Read next: peers.py.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch

from dlblas.bench.gpu_timing import Run

NAME = "deepgemm"


@functools.cache
def _package() -> Any:
    # Imported at the first call, not with this module: a package that cannot be loaded is a rival
    # without times, with its reason in the row.
    return importlib.import_module("deep_gemm")


def matmul(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> dict[str, Run]:
    """out[i] = a[i] · b[i]ᵀ, bf16."""
    return {NAME: lambda i: (_package().bf16_gemm_nt(a[i], b[i], out[i]), out[i])[1]}


def fp8_block(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor
) -> dict[str, Run]:
    """1 × 128 scales of a, converted once to DeepGEMM's layout, and 128 × 128 scales of b."""
    out = torch.empty((a.shape[1], b.shape[1]), device="cuda", dtype=torch.bfloat16)

    @functools.cache
    def of_a() -> torch.Tensor:
        return _package().get_mn_major_tma_aligned_tensor(scale_a)  # type: ignore[no-any-return]

    def run(i: int) -> torch.Tensor:
        _package().fp8_gemm_nt((a[i], of_a()), (b[i], scale_b), out, disable_ue8m0_cast=True)
        return out

    return {NAME: run}


def _expert_of_rows(rows: int, offsets: torch.Tensor) -> torch.Tensor:
    if any(end % 128 for end in offsets.tolist()):
        raise ValueError("its groups begin at multiples of 128 rows")
    all_rows = torch.arange(rows, device="cuda")
    found = torch.searchsorted(offsets[1:].contiguous(), all_rows, right=True)
    return found.to(torch.int32)


def grouped(x: torch.Tensor, weights: torch.Tensor, offsets: torch.Tensor) -> dict[str, Run]:
    """Experts' rows in sequence; takes an expert id per row, and groups at multiples of 128."""
    out = torch.empty((x.shape[1], weights.shape[2]), device="cuda", dtype=torch.bfloat16)
    expert = functools.cache(lambda: _expert_of_rows(x.shape[1], offsets))

    def run(i: int) -> torch.Tensor:
        _package().m_grouped_bf16_gemm_nt_contiguous(x[i], weights[i], out, expert())
        return out

    return {NAME: run}


def grouped_fp8(
    x: torch.Tensor,
    weights: torch.Tensor,
    offsets: torch.Tensor,
    scale_x: torch.Tensor,
    scale_w: torch.Tensor,
) -> dict[str, Run]:
    """``grouped`` in e4m3, with the scales of ``fp8_block``."""
    out = torch.empty((x.shape[1], weights.shape[2]), device="cuda", dtype=torch.bfloat16)
    expert = functools.cache(lambda: _expert_of_rows(x.shape[1], offsets))
    of_x = functools.cache(lambda: _package().get_mn_major_tma_aligned_tensor(scale_x))

    def run(i: int) -> torch.Tensor:
        _package().m_grouped_fp8_gemm_nt_contiguous(
            (x[i], of_x()), (weights[i], scale_w), out, expert(), disable_ue8m0_cast=True
        )
        return out

    return {NAME: run}


def masked_fp8(
    x: torch.Tensor,
    weights: torch.Tensor,
    counts: torch.Tensor,
    most: int,
    scale_x: torch.Tensor,
    scale_w: torch.Tensor,
) -> dict[str, Run]:
    """The first ``counts[e]`` rows of each expert, in e4m3; ``most`` rows are expected."""
    out = torch.empty((*x.shape[1:3], weights.shape[2]), device="cuda", dtype=torch.bfloat16)
    rows = tuple(out[e, :count] for e, count in enumerate(counts.tolist()))
    of_x = functools.cache(lambda: _package().get_mn_major_tma_aligned_tensor(scale_x))

    def run(i: int) -> tuple[torch.Tensor, ...]:
        _package().fp8_m_grouped_gemm_nt_masked(
            (x[i], of_x()), (weights[i], scale_w), out, counts, most, disable_ue8m0_cast=True
        )
        return rows

    return {NAME: run}
