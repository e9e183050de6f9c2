"""More rows than one launch takes: offered on a GPU, and right at the places where parts meet.

Read next: src/kernels/row_pieces.hpp, tests/cpp/test_row_pieces.cpp.
"""

from __future__ import annotations

from typing import Any

import dlblas
import pytest

MANY = 40_000_000  # the most rows of one launch are 33,554,431


@pytest.mark.parametrize("op", ["gelu", "silu_and_mul", "softmax", "quantize_token"])
def test_a_gpu_takes_them(op: str) -> None:
    x = dlblas.Spec((1 << 28, 32), "bf16", device="cuda:0")
    told = dlblas.explain(op, x, device="sm_90a").as_dict()
    rows = {row["implementation"]: row for row in told["candidates"]}
    assert rows["cuda_registers"]["supports"] and rows["cuda_strided"]["supports"]


def test_sums_over_all_rows_are_refused_in_words() -> None:
    x, w = (dlblas.Spec(s, "bf16", device="cuda:0") for s in ((1 << 28, 32), (32,)))
    told = dlblas.explain("layer_norm_backward", x, x, w, device="sm_90a").as_dict()
    reasons = [row["reason"] for row in told["candidates"] if row["implementation"] != "reference"]
    assert any("rows" in reason for reason in reasons)


@pytest.mark.gpu
@pytest.mark.parametrize("width", [1, 3])
def test_parts_meet(width: int) -> None:
    torch: Any = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    x = torch.randn(MANY, width, device="cuda").half()
    near = x.float()
    torch.testing.assert_close(dlblas.silu(x).float(), near * near.sigmoid(), rtol=2e-3, atol=1e-4)
    y = dlblas.softmax(x)
    torch.testing.assert_close(y.float(), near.softmax(-1), rtol=2e-3, atol=1e-4)
    both = x.view(2, MANY // 2, width).transpose(0, 1)  # two leading dimensions, strided
    torch.testing.assert_close(dlblas.silu(both), dlblas.silu(x).view(2, -1, width).transpose(0, 1))
