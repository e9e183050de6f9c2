"""Norms of so many bytes that their reads are evicted from L2 last (`evict_last=1`): no smaller
call compiles these kernels, so no case of the harness reaches them. Full and partial accesses at a
row's end, in place, rows that leave the range of f32. GPU: ``-m gpu``. Read next:
src/kernels/rows_cuda.cpp, tests/test_norm_extremes.py.
"""

from __future__ import annotations

from typing import Any

import dlblas
import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

# operator, implementation, width, dtype
CALLS = [
    ("rms_norm", "cuda_registers", 8192, torch.bfloat16),
    ("rms_norm", "cuda_registers", 4104, torch.float16),
    ("rms_norm_", "cuda_registers", 8192, torch.float32),
    ("rms_norm", "cuda_cluster", 65536, torch.bfloat16),
    ("add_rms_norm", "cuda_registers", 8192, torch.bfloat16),
    ("add_rms_norm_", "cuda_registers", 5000, torch.bfloat16),
    ("add_rms_norm", "cuda_cluster", 65544, torch.float16),
    ("add_rms_norm_", "cuda_cluster", 65536, torch.float32),
]
ROWS_AT_A_TIME = 512  # of the reference, which takes f64


def rows_for(op: str, width: int, dtype: Any) -> int:
    """The fewest rows for a call of more than eight times the bytes that L2 holds."""
    tensors = 4 if op.startswith("add") else 2
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    return int(8 * cache // (width * tensors * dtype.itemsize)) + 3


@pytest.mark.parametrize(("op", "name", "width", "dtype"), CALLS)
def test_results_are_right(op: str, name: str, width: int, dtype: Any) -> None:
    if name == "cuda_cluster" and torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("clusters need sm_90")
    if torch.cuda.mem_get_info()[0] < 8 << 30:
        pytest.skip("takes up to 8 GiB of the GPU's memory")
    torch.manual_seed(5)
    rows, adds = rows_for(op, width, dtype), op.startswith("add")
    x = torch.randn(rows, width, device="cuda", dtype=dtype)
    residual = torch.randn_like(x) if adds else None
    small = 1e-6 if dtype == torch.float16 else 1e-25
    x[1::97] *= small
    if residual is not None:
        residual[1::97] *= small
    weight = torch.randn(width, device="cuda", dtype=dtype)
    inputs = (x,) if residual is None else (x, residual)
    before = [t.clone() for t in inputs]
    named = {"x": x, "weight": weight} | ({} if residual is None else {"residual": residual})
    with dlblas.pinned(op.rstrip("_"), name):
        assert "evict_last=1" in str(dlblas.explain(op, **named, eps=0.0))
        made = getattr(dlblas, op)(**named, eps=0.0)
    results = inputs if op.endswith("_") else made if adds else (made,)
    y, total = results[0], results[-1]
    most = 3e-5 if dtype == torch.float32 else 0.02
    for first in range(0, rows, ROWS_AT_A_TIME):
        part = slice(first, first + ROWS_AT_A_TIME)
        h = before[0][part]
        if adds:
            h = (h.float() + before[1][part].float()).to(dtype)
            assert torch.equal(total[part], h)
        wide = h.double()
        expected = wide / wide.square().mean(-1, keepdim=True).sqrt() * weight.double()
        error = (y[part].double() - expected).abs() / (expected.abs() + 0.01)
        assert float(error.max()) < most, f"rows from {first}"
