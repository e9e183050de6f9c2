"""Rows whose mean square leaves the range of f32, or nearly does, in every implementation of the
norms.

With eps = 0 a row's scale cancels, so the result equals that of the row at an ordinary scale, which
f64 gives. 2^-51 and 2^-53.5 lie on either side of the point where kernels switch to f64. GPU: ``-m
gpu``. Read next: device/scale.cuh, cpu/row/exact.hpp, ops/norm/norm_ref.hpp.
"""

from __future__ import annotations

from typing import Any

import dlblas
import pytest
from dlblas import _native

torch = pytest.importorskip("torch")

SHAPES = [(3, 64), (7, 1000), (5, 4096), (2, 65536)]
SCALES = [2.0**-51, 2.0**-53.5, 1e-20, 1e-30, 1e20, 1e30]
OPERATORS = ["rms_norm", "rms_norm_", "add_rms_norm", "add_rms_norm_"]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def implementations(op: str, device: str) -> list[str]:
    row = _native.operator_row(op)
    return [i["name"] for i in row["implementations"] if i["backend"] == device]


def wrong(op: str, x: Any, weight: Any, residual: Any) -> float:
    """The largest error, relative to the result's size plus 0.01."""
    h = (x.float() + residual.float()).to(x.dtype) if "add" in op else x
    wide = h.double()
    expected = wide / wide.square().mean(-1, keepdim=True).sqrt() * weight.double()
    named = {"x": x.clone(), "weight": weight}
    if "add" in op:
        named["residual"] = residual.clone()
    made = getattr(dlblas, op)(**named, eps=0.0)
    if op.endswith("_"):
        made = named["x"], named.get("residual")
    y, total = made if isinstance(made, tuple) else (made, None)
    if "add" in op:
        assert torch.equal(total, h)
    return float(((y.double() - expected).abs() / (expected.abs() + 0.01)).max())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_rows_of_zeros_stay_zeros_however_small_eps_is(dtype: Any, device: str) -> None:
    for rows, width in SHAPES:
        x, weight = (torch.zeros(n, device=device, dtype=dtype) for n in ((rows, width), (width,)))
        for name in implementations("rms_norm", device):
            try:
                with dlblas.pinned("rms_norm", name):
                    y = dlblas.rms_norm(x, weight + 1, eps=1e-31)
            except dlblas.errors.UnsupportedError:
                continue
            assert torch.equal(y, x), f"{name} [{rows}, {width}]"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
def test_rows_that_leave_f32_are_normalised(op: str, dtype: Any, device: str) -> None:
    torch.manual_seed(3)
    most = 3e-5 if dtype == torch.float32 else 0.02
    ran = 0
    for rows, width in SHAPES:
        weight = torch.randn(width, device=device).to(dtype)
        for scale in SCALES:
            x, residual = (torch.randn(rows, width, device=device) for _ in range(2))
            x[1:] *= scale  # the first row stays ordinary
            residual[1:] *= scale
            for name in implementations(op.rstrip("_"), device):
                try:
                    with dlblas.pinned(op.rstrip("_"), name):
                        error = wrong(op, x.to(dtype), weight, residual.to(dtype))
                except dlblas.errors.UnsupportedError:
                    continue
                assert error < most, f"{name} [{rows}, {width}] times {scale:g}: {error:g}"
                ran += 1
    assert ran >= len(SHAPES) * len(SCALES)
