"""``linear_rope`` against torch in f64: styles, tables, implementations; and ``rms_norm_linear``
with rope, which rounds only once. Read next: ops/mlp/linear_rope/.
"""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import torch.nn.functional as F  # noqa: E402, N812
from dlblas import errors  # noqa: E402
from dlblas.harness import load_registry  # noqa: E402

DTYPES = {torch.float32: 3e-6, torch.float16: 6e-4, torch.bfloat16: 5e-3}
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
styles = pytest.mark.parametrize("style", ["neox", "interleaved"])


@pytest.fixture(name="device", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def every_device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    torch.manual_seed(3)
    return str(request.param)


def rotated(y: Any, cos: Any, sin: Any, heads: int, width: int, style: str) -> Any:
    z = y[..., : heads * width].unflatten(-1, (heads, width))
    rows = torch.arange(len(y)) % len(cos)
    cos, sin = cos.double()[rows][:, None], sin.double()[rows][:, None]
    half = width // 2
    neox = style == "neox"
    low, high = (z[..., :half], z[..., half:]) if neox else (z[..., 0::2], z[..., 1::2])
    first = low * cos[..., :half] - high * sin[..., :half]
    second = high * cos[..., half:] + low * sin[..., half:]
    z = torch.cat((first, second), -1) if neox else torch.stack((first, second), -1).flatten(-2)
    return torch.cat((z.flatten(-2), y[..., heads * width :]), -1)


def made(
    device: str, dtype: Any, rows: int, width: int, table_rows: int, k: int = 136
) -> list[Any]:
    """x, a weight of four heads of which three are rotated, tables, bias."""
    x, weight = torch.randn(rows, k, device=device), torch.randn(4 * width, k, device=device)
    tables = torch.randn(2, table_rows, width, device=device).unbind()
    bias = torch.randn(4 * width, device=device)
    return [(x / 3).to(dtype), (weight / 3).to(dtype), *tables, bias.to(dtype)]


@styles
@dtypes
@pytest.mark.parametrize(
    ("rows", "width", "table_rows"),
    [
        (1, 64, 1),
        (9, 16, 5),
        (130, 128, 130),
        (130, 64, 65),
        (70, 96, 70),
        (150, 192, 60),
        (300, 256, 77),
    ],
)
def test_values_of_every_implementation(
    rows: int, width: int, table_rows: int, dtype: Any, style: str, device: str
) -> None:
    x, weight, cos, sin, bias = made(device, dtype, rows, width, table_rows)
    plain = F.linear(x.double(), weight.double(), bias.double()).cpu()
    want = rotated(plain, cos.cpu(), sin.cpu(), 3, width, style)
    ran = 0
    for name in (row["name"] for row in load_registry().implementations("linear_rope")):
        try:
            with dlblas.pinned("linear_rope", name):
                y = dlblas.linear_rope(x, weight, cos, sin, 3, style, bias=bias)
        except errors.Error:
            continue
        ran += 1
        assert y.dtype == dtype
        off = float((y.double().cpu() - want).norm() / want.norm())
        assert off <= DTYPES[dtype], (name, off)
    assert ran >= 1


@styles
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_rms_norm_linear_rounds_once(dtype: Any, style: str, device: str) -> None:
    x, weight, cos, sin, _ = made(device, dtype, 12, 32, 6)
    gain = torch.rand(136, device=device, dtype=dtype)
    y = dlblas.rms_norm_linear(x.reshape(2, 6, 136), gain, weight, rope=(cos, sin, 2, 1, style))
    normed = dlblas.rms_norm(x, gain, 1e-6)
    want = dlblas.linear_rope(normed, weight, cos, sin, 3, style)
    torch.testing.assert_close(y.reshape(12, -1), want, rtol=0, atol=0)


def test_compiles(device: str) -> None:
    x, weight, cos, sin, _ = made(device, torch.float32, 9, 16, 9)
    torch.library.opcheck(torch.ops.dlblas.linear_rope, (x, weight, cos, sin, 3, "neox"))
    gain = torch.rand(136, device=device)

    def call(x: Any) -> Any:
        return dlblas.rms_norm_linear(x, gain, weight, rope=(cos, sin, 2, 1))

    run = torch.compile(call, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(run(x), call(x))


def test_bad_calls_name_the_argument(device: str) -> None:
    x, weight, cos, sin, _ = made(device, torch.float32, 9, 16, 9)
    with pytest.raises(errors.ShapeMismatchError, match="weight"):
        dlblas.linear_rope(x, weight, cos, sin, 5)
    with pytest.raises(errors.Error, match="heads"):
        dlblas.linear_rope(x, weight, cos, sin, -1)
    with pytest.raises(errors.ArgumentError, match="cos has no rows"):
        dlblas.linear_rope(x, weight, cos[:0], sin[:0], 3)
    with pytest.raises(errors.ArgumentError, match="cos has no columns"):
        dlblas.linear_rope(x, weight, cos[:, :0], sin[:, :0], 3)
    with pytest.raises(errors.ShapeMismatchError, match="sin"):
        dlblas.linear_rope(x, weight, cos, sin[1:], 3)


@pytest.mark.parametrize("way", ["to_half", "one row of tables for a sequence", "gradient"])
def test_tables_of_half_the_width_are_not_copied(way: str, monkeypatch: Any) -> None:
    """Where apply_rotary_pos_emb rotates; the bits are those of whole tables."""
    from dlblas.ops import mlp_api

    x, gain, weight = torch.randn(2, 5, 16), torch.rand(16) + 0.5, torch.randn(40, 16)
    angles = torch.randn(*((2, 1, 4) if way.startswith("one") else (5, 4)))
    halves = angles.cos(), angles.sin()
    whole = [torch.cat((t, t), -1) for t in halves]
    style = "interleaved_to_half" if way == "to_half" else "neox"
    given = x, gain, weight
    if way == "gradient":
        x.requires_grad_()
    results = []
    for tables in (whole, halves):
        y = dlblas.rms_norm_linear(*given, rope=(*tables, 2, 1, style, 8))
        if tables is whole:

            def copies(table: Any) -> Any:
                raise AssertionError("a copy")

            if way == "gradient":
                y.sum().backward()
                y, x.grad = x.grad, None
            else:
                monkeypatch.setattr(mlp_api, "doubled", copies)
        elif way == "gradient":
            saved = [t.shape for t in y.grad_fn.saved_tensors]
            assert saved.count((5, 4)) == 2
            y.sum().backward()
            y = x.grad
        results.append(y)
    assert torch.equal(*results)


@pytest.mark.parametrize("style", ["neox", "interleaved", "interleaved_to_half"])
@pytest.mark.parametrize("tables", [(5, 8), (2, 5, 8), (5, 4)], ids=str)
def test_gradients_with_rope(device: str, style: str, tables: tuple[int, ...]) -> None:
    """Against torch's autograd of the formula in f64."""
    torch.manual_seed(1)
    x, gain, weight = torch.randn(2, 5, 16), torch.rand(16) + 0.5, torch.randn(40, 16)
    angles = torch.randn(tables)
    if style == "interleaved_to_half" and tables[-1] == 8:
        angles = torch.randn(tables)  # any tables: the halves need not agree
    cos, sin = angles.cos(), angles.mul(1.3).sin()

    def formula(x: Any, gain: Any, weight: Any) -> Any:
        n = x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * gain
        z = n @ weight.T
        c, s = (t.double().to(device) for t in (cos, sin))
        if c.shape[-1] == 4:
            c, s = torch.cat((c, c), -1), torch.cat((s, s), -1)
        c, s = (t[..., None, :] for t in (c, s))
        heads = z[..., :24].unflatten(-1, (3, 8))
        if style == "neox":
            low, high = heads.chunk(2, -1)
        else:
            low, high = heads[..., 0::2], heads[..., 1::2]
        parts = low * c[..., :4] - high * s[..., :4], high * c[..., 4:] + low * s[..., 4:]
        if style == "interleaved":
            turned = torch.stack(parts, -1).flatten(-2)
        else:
            turned = torch.cat(parts, -1)
        return torch.cat((turned.flatten(-2), z[..., 24:]), -1)

    rope = cos.to(device), sin.to(device), 2, 1, style, 8
    ours = [t.to(device).requires_grad_() for t in (x, gain, weight)]
    theirs = [t.detach().double().requires_grad_() for t in ours]
    dy = torch.randn(2, 5, 40, device=device)
    y = dlblas.rms_norm_linear(*ours, rope=rope)
    plain = dlblas.rms_norm_linear(*(t.detach() for t in ours), rope=rope)
    assert torch.equal(y.detach(), plain)
    wanted = formula(*theirs)
    torch.testing.assert_close(y.double(), wanted, rtol=1e-5, atol=1e-5)
    made = torch.autograd.grad(y, ours, dy, retain_graph=True)
    for got, want in zip(made, torch.autograd.grad(wanted, theirs, dy.double()), strict=True):
        torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-4)
    alone = torch.autograd.grad(y, [ours[2]], dy, retain_graph=True)
    assert torch.equal(alone[0], made[2])
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda *t: dlblas.rms_norm_linear(*t, rope=rope), backend="aot_eager", fullgraph=True
    )(*ours)
    for got, want in zip(torch.autograd.grad(compiled, ours, dy), made, strict=True):
        torch.testing.assert_close(got, want)
    (dx,) = torch.autograd.grad(y, [ours[0]], dy, create_graph=True)
    with pytest.raises(dlblas.errors.UnsupportedError, match="second derivative"):
        dx.sum().backward()
    with pytest.raises(dlblas.errors.ArgumentError, match=r"rope\[1\] requires grad"):
        dlblas.rms_norm_linear(*ours, rope=(rope[0], rope[1].requires_grad_(), *rope[2:]))
    with pytest.raises(dlblas.errors.ArgumentError, match="requires grad"):
        dlblas.rms_norm_linear(*ours, rope=(rope[0], rope[1].detach(), *rope[2:]), out=plain)


@styles
@dtypes
@pytest.mark.parametrize("table_rows", [1, 5, 9])
def test_gradients_of_all_tensors(device: str, dtype: Any, style: str, table_rows: int) -> None:
    """Tables too; once, and in f32 twice, against torch's autograd of the formula in f64."""
    given = [t.requires_grad_() for t in made(device, dtype, 9, 8, table_rows, 24)]
    wide = [t.detach().double().requires_grad_() for t in given]

    def results(x: Any, weight: Any, cos: Any, sin: Any, bias: Any) -> Any:
        if x.dtype != torch.float64:
            return dlblas.linear_rope(x, weight, cos, sin, 3, style, bias=bias)
        return rotated(x @ weight.T + bias, cos, sin, 3, 8, style)

    twice, made_of = dtype == torch.float32, []
    for tensors in (given, wide):
        y = results(*tensors)
        first = torch.autograd.grad(y.square().sum(), tensors, create_graph=twice)
        second = ()
        if twice:
            second = torch.autograd.grad(sum(g.square().sum() for g in first), tensors)
        made_of.append((*first, *second))
    for got, want in zip(*made_of, strict=True):
        assert (got.double() - want).norm() <= 8 * DTYPES[dtype] * want.norm()


def test_only_what_is_needed_has_a_gradient(device: str) -> None:
    x, weight, cos, sin, bias = made(device, torch.float32, 9, 8, 9, 24)
    weight.requires_grad_()
    y = dlblas.linear_rope(x.view(3, 3, 24), weight, cos, sin, 3, bias=bias)
    y.sum().backward()
    assert weight.grad is not None and weight.grad.shape == weight.shape
    assert all(t.grad is None for t in (x, cos, sin, bias))
