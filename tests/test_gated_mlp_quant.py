"""``dlblas.gated_mlp_quant`` against torch in f64: codes, scales and the values that they
represent, also as an input of ``scaled_mm``. Read next: ops/mlp/gated_linear_quant_group/.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import torch.nn.functional as F  # noqa: E402, N812
from dlblas import errors  # noqa: E402
from dlblas.harness import load_registry  # noqa: E402


@pytest.fixture(name="device", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def every_device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    torch.manual_seed(7)
    return str(request.param)


def made(device: str, dtype: Any, rows: int, k: int, columns: int) -> list[Any]:
    shapes = ((rows, k), (columns, k), (columns, k))
    return [(torch.randn(s, device=device) / k**0.25).to(dtype) for s in shapes]


def dequantised(q: Any, scale: Any) -> Any:
    return q.double() * scale.double().repeat_interleave(128, -1)[..., : q.shape[-1]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("rows", "k", "columns"), [(1, 64, 128), (9, 72, 40), (130, 136, 400), (64, 1032, 256)]
)
def test_every_implementation(rows: int, k: int, columns: int, dtype: Any, device: str) -> None:
    x, gate, up = made(device, dtype, rows, k, columns)
    wide = [t.double() for t in (x, gate, up)]
    y = F.silu(F.linear(wide[0], wide[1])) * F.linear(wide[0], wide[2])
    amax = torch.stack([g.abs().amax(-1) for g in y.split(128, -1)], -1)
    ran = 0
    for name in (r["name"] for r in load_registry().implementations("gated_linear_quant_group")):
        if name == "reference":  # between two codes that are both right it takes either
            continue
        try:
            with dlblas.pinned("gated_linear_quant_group", name):
                q, scale = dlblas.gated_mlp_quant(x, gate, up)
        except errors.Error:
            continue
        ran += 1
        assert q.dtype == torch.float8_e4m3fn and q.shape == y.shape
        torch.testing.assert_close(scale.double(), amax / 448, rtol=1e-4, atol=1e-7)
        # Half a step of e4m3, or of its smallest numbers; y's own error is far smaller.
        steps = scale.double().repeat_interleave(128, -1)[..., :columns]
        off = (dequantised(q, scale) - y).abs()
        assert bool((off <= y.abs() * 2**-4 * 1.001 + steps * 2**-10 + 2e-5).all()), name
    assert ran >= 1


def test_is_what_scaled_mm_multiplies(device: str) -> None:
    x, gate, up = made(device, torch.bfloat16, 33, 136, 256)
    q, scale = dlblas.gated_mlp_quant(x.reshape(3, 11, 136), gate, up)
    down, down_scale = dlblas.quantize(torch.randn(128, 256, device=device), "block128")
    out = dlblas.scaled_mm(q, down.T, scale, down_scale.T, granularity="group128")
    blocks = down_scale.repeat_interleave(128, 0).repeat_interleave(128, 1)
    want = dequantised(q, scale) @ (down.double() * blocks.double()).T
    assert float((out.double() - want).norm() / want.norm()) < 5e-3


def test_compiles_and_refuses(device: str) -> None:
    x, gate, up = made(device, torch.float32, 9, 72, 40)
    torch.library.opcheck(torch.ops.dlblas.gated_linear_quant_group, (x, gate, up))
    run = torch.compile(dlblas.gated_mlp_quant, backend="aot_eager", fullgraph=True)
    for got, want in zip(run(x, gate, up), dlblas.gated_mlp_quant(x, gate, up), strict=True):
        assert torch.equal(got.float(), want.float())
    with pytest.raises(errors.ArgumentError, match="granularity"):
        dlblas.gated_mlp_quant(x, gate, up, "token")
    with pytest.raises(errors.ShapeMismatchError, match="w_up"):
        dlblas.gated_mlp_quant(x, gate, up[1:])
    with pytest.raises(errors.Error, match="x requires grad"):
        dlblas.gated_mlp_quant(x.requires_grad_(), gate, up)
