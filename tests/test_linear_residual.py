"""``dlblas.linear`` with a residual and scales, and ``linear_residual``: against torch in f64,
values and gradients, in place, compiled, at every level of the CPU and, where there is one, on a
GPU.
Read next: ops/gemm/linear_residual/.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import torch.nn.functional as F  # noqa: E402, N812
from dlblas import errors  # noqa: E402
from dlblas.harness import load_registry  # noqa: E402

DTYPES = {torch.float32: 3e-6, torch.float16: 2e-3, torch.bfloat16: 1.2e-2}
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
ACTS = {"": lambda v: v, "relu": F.relu, "leaky_relu": F.leaky_relu, "gelu": F.gelu, "silu": F.silu}
T, K, N = 9, 72, 40


@pytest.fixture(name="device", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def every_device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    torch.manual_seed(5)
    return str(request.param)


def made(device: str, dtype: Any, lead: tuple[int, ...] = (T,), n: int = N, k: int = K) -> Any:
    def of(*shape: int) -> Any:
        return torch.randn(shape, dtype=torch.float64, device=device)

    tensors = {
        "x": of(*lead, k) / k**0.25, "weight": of(n, k) / k**0.25, "bias": of(n),
        "residual": of(*lead, n),
    }  # fmt: skip
    tensors = {name: t.to(dtype) for name, t in tensors.items()}
    scales = {"row_scale": of(*lead, 1).float(), "column_scale": of(n).float()}
    return {**tensors, **scales}


def wanted(
    x: Any, weight: Any, bias: Any = None, residual: Any = None, row_scale: Any = None,
    column_scale: Any = None, act: str = "",
) -> Any:  # fmt: skip
    y = F.linear(x.double(), weight.double())
    for part in (row_scale, column_scale):
        y = y if part is None else y * part.double()
    y = ACTS[act](y if bias is None else y + bias.double())
    return y if residual is None else y + residual.double()


def near(got: Any, want: Any, dtype: Any) -> None:
    off = float((got.double() - want).norm() / want.norm())
    assert got.shape == want.shape and off <= DTYPES[dtype], off


@dtypes
@pytest.mark.parametrize("act", ACTS)
def test_all_operands_and_their_gradients(act: str, dtype: Any, device: str) -> None:
    t = {n: v.requires_grad_() for n, v in made(device, dtype, (3, 3)).items()}
    wide = {n: v.detach().double().requires_grad_() for n, v in t.items()}
    y = dlblas.linear(activation=act, **t)
    want = wanted(act=act, **wide)
    assert y.dtype == dtype
    near(y.detach(), want.detach(), dtype)
    arrives = torch.randn_like(y)
    y.backward(arrives)
    want.backward(arrives.double())
    for name, tensor in t.items():
        assert tensor.grad.dtype == tensor.dtype
        near(tensor.grad, wide[name].grad, dtype)


@pytest.mark.parametrize("name", ["residual", "row_scale", "column_scale"])
@dtypes
def test_each_alone(name: str, dtype: Any, device: str) -> None:
    t = made(device, dtype)
    given = {n: t[n] for n in ("x", "weight", name)}
    near(dlblas.linear(**given), wanted(**given), dtype)
    if name == "row_scale":
        flat = dlblas.linear(**{**given, name: t[name].reshape(-1)})
        torch.testing.assert_close(flat, dlblas.linear(**given), rtol=0, atol=0)


@dtypes
def test_gradients_by_differences(dtype: Any, device: str) -> None:
    if dtype != torch.float32:
        pytest.skip("differences of f32")
    t = {n: v.requires_grad_() for n, v in made(device, dtype, (2,), 3, 4).items()}
    assert torch.autograd.gradcheck(
        lambda *v: dlblas.linear(**dict(zip(t, v, strict=True)), activation="silu"),
        tuple(t.values()), eps=1e-2, atol=1e-2, rtol=1e-2,
    )  # fmt: skip


@dtypes
@pytest.mark.parametrize("rows", [1, 9, 130])
def test_out_may_be_the_residual(rows: int, dtype: Any, device: str) -> None:
    t = made(device, dtype, (rows,))
    want = dlblas.linear(activation="silu", **t)
    kept = t["residual"]
    assert dlblas.linear(activation="silu", **t, out=kept) is kept
    torch.testing.assert_close(kept, want, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_residual_of_f32_in_place(dtype: Any, device: str) -> None:
    t = made(device, dtype)
    t["residual"] = t["residual"].float()
    want = wanted(**t)
    dlblas.linear(**t, out=t["residual"])
    near(t["residual"], want, torch.float32)
    t["residual"] = torch.randn(T, N, device=device)
    assert dlblas.linear(**t).dtype == dtype
    assert dlblas.linear(**t, out_dtype=torch.float32).dtype == torch.float32


def test_every_implementation_agrees_in_place(device: str) -> None:
    t = made(device, torch.bfloat16, (130,), 264, 136)
    want = wanted(act="gelu", **t)
    ran = 0
    keys = {**t, "activation": "gelu"}
    for name in (row["name"] for row in load_registry().implementations("linear_residual")):
        try:
            with dlblas.pinned("linear_residual", name):
                out = t["residual"].clone()
                dlblas.linear(**{**keys, "residual": out}, out=out)
        except errors.Error:
            continue
        ran += 1
        near(out, want, torch.bfloat16)
    assert ran >= (3 if device == "cuda" else 2)


def test_a_transposed_batch_and_other_strides(device: str) -> None:
    t = made(device, torch.float32, (4, 6))
    turned = {n: t[n].transpose(0, 1) if t[n].dim() == 3 else t[n] for n in t}
    near(dlblas.linear(**turned), wanted(**turned), torch.float32)
    wide = {**t, "weight": torch.randn(N, 2 * K, device=device)[:, ::2]}
    near(dlblas.linear(**wide), wanted(**wide), torch.float32)


def test_compiles_and_passes_opcheck(device: str) -> None:
    t = {n: v.requires_grad_() for n, v in made(device, torch.float32).items()}
    op = torch.ops.dlblas.linear_residual
    x, weight, *_ = t.values()
    given = {n: v for n, v in t.items() if n not in ("x", "weight")}
    torch.library.opcheck(op, (x, weight, "silu"), given)
    run = torch.compile(lambda: dlblas.linear(**t, activation="silu"), backend="aot_eager")
    want = dlblas.linear(**t, activation="silu")
    torch.testing.assert_close(run(), want, rtol=1e-6, atol=1e-6)
    for got, other in zip(
        torch.autograd.grad(run().sum(), list(t.values())),
        torch.autograd.grad(want.sum(), list(t.values())), strict=True,
    ):  # fmt: skip
        torch.testing.assert_close(got, other, rtol=1e-5, atol=1e-5)


def test_bad_calls_name_the_argument(device: str) -> None:
    t = made(device, torch.float32)
    for name, bad in {
        "residual": t["residual"][:, 1:], "row_scale": t["row_scale"][1:],
        "column_scale": t["column_scale"][1:],
    }.items():  # fmt: skip
        with pytest.raises(errors.ShapeMismatchError, match=name):
            dlblas.linear(**{**t, name: bad})
    with pytest.raises(errors.UnsupportedDtypeError, match="row_scale"):
        dlblas.linear(**{**t, "row_scale": t["row_scale"].half()})
    with pytest.raises(errors.ArgumentError, match="activation"):
        dlblas.linear(**t, activation="tanh")
    memory = torch.randn(T + 1, N, device=device)
    with pytest.raises(errors.Error, match="overlap"):
        dlblas.linear(**{**t, "residual": memory[1:]}, out=memory[:-1])
