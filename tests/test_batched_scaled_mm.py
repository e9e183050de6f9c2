"""dlblas.bmm_fp8 and its operator, batched_scaled_mm: values against f64 over sizes, layouts and
dtypes; the bits of scaled_mm on each matrix; one graph of torch.compile for every size.

Every test of values runs on the CPU and, where there is one, on a GPU. Read next:
ops/gemm/batched_scaled_mm/.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
from dlblas import errors  # noqa: E402
from torch_gradients import every_device  # noqa: E402, F401

F8 = torch.float8_e4m3fn
SIZES = [(1, 1, 1, 1), (5, 13, 37, 41), (2, 1, 256, 24), (3, 33, 300, 65), (7, 64, 128, 1)]
# Of the norm: f32 sums, then one rounding to the result's dtype.
BARS = {torch.float32: 3e-4, torch.float16: 6e-4, torch.bfloat16: 3e-3}


def drawn(*shape: int, device: str = "cpu", dtype: Any = F8) -> Any:
    torch.manual_seed(7)
    if dtype is torch.int8:
        return torch.randint(-127, 128, shape, dtype=torch.int8, device=device)
    return torch.randn(shape, device=device).to(dtype)


def codes_of(x: Any) -> Any:
    return x.view(torch.uint8)


def laid_out(x: Any, how: str) -> Any:
    """The same matrices, lying in another way."""
    batch, rows, columns = x.shape
    if how == "columns":  # FlashInfer's column-major: K is contiguous
        return codes_of(x).transpose(1, 2).contiguous().view(F8).transpose(1, 2)
    if how == "wide":  # rows at a stride
        room = torch.zeros(batch, rows, columns + 5, dtype=torch.uint8, device=x.device)
        room[..., :columns] = codes_of(x)
        return room.view(F8)[..., :columns]
    if how == "tokens":  # matrices between the rows
        return codes_of(x).transpose(0, 1).contiguous().view(F8).transpose(0, 1)
    if how == "apart":  # every second matrix
        room = torch.zeros(2 * batch, rows, columns, dtype=torch.uint8, device=x.device)
        room[::2] = codes_of(x)
        return room.view(F8)[::2]
    return x


def exact(a: Any, b: Any, *scales: float) -> Any:
    product = torch.matmul(a.float().double(), b.float().double())
    return product * float(torch.tensor(scales, dtype=torch.float32).prod())


def away(got: Any, want: Any) -> float:
    return float((got.double() - want).norm() / want.norm().clamp(min=1e-30))


@pytest.mark.parametrize("out_dtype", BARS, ids=str)
@pytest.mark.parametrize("how", ["plain", "columns", "wide", "tokens", "apart"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_values(sizes: tuple[int, ...], how: str, out_dtype: Any, device: str) -> None:
    batch, m, k, n = sizes
    a = drawn(batch, m, k, device=device)
    b = drawn(batch, k, n, device=device)
    want = exact(a, b, 0.25, 3.0)
    left, right = laid_out(a, how if how != "columns" else "wide"), laid_out(b, how)
    assert torch.equal(codes_of(left), codes_of(a)) and torch.equal(codes_of(right), codes_of(b))
    scale = torch.tensor(0.25, device=device)
    got = dlblas.bmm_fp8(left, right, scale, torch.tensor([3.0], device=device), out_dtype)
    assert got.dtype is out_dtype and got.shape == (batch, m, n)
    assert away(got, want) < BARS[out_dtype]
    out = torch.full((batch, m, n), 7.0, device=device, dtype=out_dtype)
    assert dlblas.bmm_fp8(left, right, 0.25, 3.0, out=out) is out
    assert torch.equal(out, got)
    room = torch.zeros(batch, n, m, device=device, dtype=out_dtype)
    dlblas.bmm_fp8(left, right, 0.25, 3.0, out=room.transpose(1, 2))
    assert torch.equal(room.transpose(1, 2), got)


@pytest.mark.parametrize("dtype", [F8, torch.int8], ids=str)
def test_each_matrix_has_the_bits_of_scaled_mm(dtype: Any, device: str) -> None:
    a = drawn(4, 19, 272, device=device, dtype=dtype)
    b = drawn(4, 272, 40, device=device, dtype=dtype)
    bias = torch.randn(40, device=device)
    scales = torch.tensor(0.02, device=device), torch.tensor(0.5, device=device)
    with dlblas.deterministic():
        got = dlblas.batched_scaled_mm(a, b, *scales, bias=bias, out_dtype=torch.float32)
        for mine, left, right in zip(got, a, b, strict=True):
            one = dlblas.scaled_mm(
                left, right, *scales, granularity="tensor", bias=bias, out_dtype=torch.float32
            )
            assert torch.equal(mine, one)


@pytest.mark.parametrize("lead", [(2, 3), (3, 1, 2)], ids=str)
def test_leading_dimensions_lie_in_any_way(lead: tuple[int, ...], device: str) -> None:
    a, b = drawn(*lead, 9, 48, device=device), drawn(*lead, 48, 16, device=device)
    want = exact(a, b, 1.0)
    got = dlblas.bmm_fp8(a, b, 1.0, 1.0, torch.float32)
    turned = codes_of(a).transpose(0, -3).contiguous().view(F8).transpose(0, -3)
    assert away(got, want) < 3e-4
    assert torch.equal(dlblas.bmm_fp8(turned, b, 1.0, 1.0, torch.float32), got)
    out = torch.empty(got.transpose(0, -3).shape, device=device).transpose(0, -3)
    assert torch.equal(dlblas.bmm_fp8(a, b, 1.0, 1.0, out=out), got)


@pytest.mark.parametrize("sizes", [(0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 4, 0)], ids=str)
def test_nothing_to_compute(sizes: tuple[int, ...], device: str) -> None:
    batch, m, k, n = sizes
    a, b = drawn(batch, m, k, device=device), drawn(batch, k, n, device=device)
    assert dlblas.bmm_fp8(a, b, 1.0, 1.0).shape == (batch, m, n)


def test_no_terms_is_zero(device: str) -> None:
    a, b = drawn(2, 3, 0, device=device), drawn(2, 0, 5, device=device)
    out = torch.full((2, 3, 5), 7.0, device=device)
    assert not dlblas.bmm_fp8(a, b, 2.0, 2.0, out=out).any()


def test_numpy() -> None:
    np = pytest.importorskip("numpy")
    a, b = drawn(3, 5, 16, dtype=torch.int8), drawn(3, 16, 7, dtype=torch.int8)
    scales = np.float32(0.5).reshape(1), np.float32(2.0).reshape(1)
    got = dlblas.batched_scaled_mm(a.numpy(), b.numpy(), *scales, out_dtype="f32")
    np.testing.assert_array_equal(got, (a.double() @ b.double()).numpy())


def test_what_is_refused(device: str) -> None:
    a, b = drawn(2, 3, 16, device=device), drawn(2, 16, 8, device=device)
    out = torch.empty(2, 3, 8, device=device, dtype=torch.bfloat16)
    with pytest.raises(errors.ShapeMismatchError, match="bmm_fp8: a has other leading"):
        dlblas.bmm_fp8(a[:1], b, 1.0, 1.0)
    with pytest.raises(errors.ShapeMismatchError, match=r"bmm_fp8: b has size 15.*expected K = 16"):
        dlblas.bmm_fp8(a, b[:, :15], 1.0, 1.0)
    with pytest.raises(errors.ShapeMismatchError, match="bmm_fp8: a_scale has several elements"):
        dlblas.bmm_fp8(a, b, torch.ones(2, device=device), 1.0)
    with pytest.raises(errors.ShapeMismatchError, match="bmm_fp8: out has another shape"):
        dlblas.bmm_fp8(a, b, 1.0, 1.0, out=out[:1])
    with pytest.raises(errors.UnsupportedDtypeError, match=r"bmm_fp8: b .* f8e4m3, got"):
        dlblas.bmm_fp8(a, b.to(torch.float8_e5m2), 1.0, 1.0)
    with pytest.raises(errors.UnsupportedDtypeError, match="bmm_fp8: out has dtype bf16"):
        dlblas.bmm_fp8(a, b, 1.0, 1.0, torch.float16, out=out)
    with pytest.raises(errors.UnsupportedDtypeError, match="bmm_fp8: b_scale has dtype f64"):
        dlblas.bmm_fp8(a, b, 1.0, torch.ones((), device=device).double())
    with pytest.raises(errors.DeviceError, match="bmm_fp8: b "):
        dlblas.bmm_fp8(a, b.to("meta"), 1.0, 1.0)
    memory = torch.zeros(4, 8, 8, dtype=torch.bfloat16, device=device)
    inside = torch.as_strided(codes_of(memory), (2, 8, 8), (128, 8, 1)).view(F8)
    with pytest.raises(errors.ArgumentError, match="bmm_fp8: out overlaps b"):
        dlblas.bmm_fp8(drawn(2, 8, 8, device=device), inside, 1.0, 1.0, out=memory[:2])


@pytest.mark.parametrize("dtype", [F8, torch.int8], ids=str)
def test_its_torch_operators(dtype: Any, device: str) -> None:
    """torch's own checks: the schema, the fake, and what the kernel returns."""
    a = drawn(3, 5, 32, device=device, dtype=dtype)
    b = drawn(3, 24, 32, device=device, dtype=dtype).transpose(1, 2)
    scales = torch.ones((), device=device), torch.ones(1, device=device)
    dlblas.batched_scaled_mm(a, b, *scales)
    of = torch.ops.dlblas
    checks = ("test_faketensor", "test_aot_dispatch_dynamic")  # torch does not compare f8
    how = {"test_utils": checks} if dtype is F8 else {}
    for named in ({}, {"out_dtype": torch.float32}, {"bias": torch.ones(24, device=device)}):
        torch.library.opcheck(of.batched_scaled_mm.default, (a, b, *scales), named, **how)
    out = torch.empty(3, 5, 24, device=device, dtype=torch.float16)
    torch.library.opcheck(
        of.batched_scaled_mm_out.default,
        (a, b, *scales),
        {"out": out, "out_dtype": out.dtype},
        **how,
    )
    made = dlblas.bmm_fp8(drawn(2, 3, 4).to("meta"), drawn(2, 4, 5).to("meta"), 1.0, 1.0)
    assert made.device.type == "meta" and made.shape == (2, 3, 5)


def test_one_graph_serves_every_size(device: str) -> None:
    """A loop over matrices in the graph would compile it again for each batch."""
    from torch._dynamo.testing import AotEagerAndRecordGraphs, CompileCounterWithBackend

    recorded = AotEagerAndRecordGraphs()
    counter = CompileCounterWithBackend(recorded)
    torch.compiler.reset()
    compiled = torch.compile(dlblas.bmm_fp8, fullgraph=True, dynamic=True, backend=counter)
    scales = torch.tensor(0.5, device=device), torch.tensor(2.0, device=device)
    for batch, m in ((2, 3), (5, 3), (9, 17), (40, 2)):
        a = drawn(batch, m, 32, device=device)
        b = drawn(batch, 24, 32, device=device).transpose(1, 2)
        assert torch.equal(compiled(a, b, *scales), dlblas.bmm_fp8(a, b, *scales))
    assert counter.frame_count == 1
    names = [str(n.target) for n in recorded.fw_graphs[0].graph.nodes if n.op == "call_function"]
    assert [n for n in names if n.startswith("dlblas.")] == ["dlblas.batched_scaled_mm.default"]
    again = compiled(drawn(40, 2, 32, device=device), b, 0.5, 2.0)
    assert torch.equal(again, dlblas.bmm_fp8(drawn(40, 2, 32, device=device), b, 0.5, 2.0))
