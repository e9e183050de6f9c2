"""linear, gated_mlp, fused_gated_mlp, rms_norm_linear, ffn.call and their modules, against torch in
f64: values, and gradients of all tensors. Every test runs on the CPU and, where there is one, on a
GPU. Read next: ops/mlp/api.py, ops/gemm/matmul/gradient.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402, N812
from dlblas import errors  # noqa: E402

ACTS: dict[str, Callable[[Any], Any]] = {
    "": lambda v: v,
    "relu": F.relu,
    "leaky_relu": F.leaky_relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda v: F.gelu(v, approximate="tanh"),
    "silu": F.silu,
}
# The relative error that rounding leaves, as a share of the norm.
DTYPES = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.2e-2}
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


@pytest.fixture(name="device", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def every_device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    torch.manual_seed(11)
    return str(request.param)


def leaves(device: str, dtype: Any, *shapes: tuple[int, ...]) -> list[Any]:
    """Values that do not grow with the width."""
    made = [torch.randn(s, dtype=torch.float64, device=device) / s[-1] ** 0.25 for s in shapes]
    return [t.to(dtype).requires_grad_() for t in made]


def check(
    ours: Callable[..., Any], theirs: Callable[..., Any], tensors: list[Any], most: float
) -> None:
    """Values and gradients of all tensors, each as a share of its norm."""
    wide = [t.detach().double().requires_grad_() for t in tensors]
    y, wanted = ours(*tensors), theirs(*wide)
    assert y.shape == wanted.shape and y.dtype == tensors[0].dtype
    arrives = torch.randn_like(y)
    y.backward(arrives)
    wanted.backward(arrives.double())
    pairs = [(y, wanted), *((t.grad, w.grad) for t, w in zip(tensors, wide, strict=True))]
    for got, want in pairs:
        off = float((got.detach().double() - want.detach()).norm() / want.detach().norm())
        assert off <= most, f"{off:.2e} of {tuple(want.shape)}, allowed {most:.1e}"


@dtypes
@pytest.mark.parametrize("act", ["", "relu", "leaky_relu", "gelu", "silu"])
def test_linear(act: str, dtype: Any, device: str) -> None:
    tensors = leaves(device, dtype, (2, 9, 72), (40, 72), (40,))
    check(
        lambda x, w, b: dlblas.linear(x, w, b, act),
        lambda x, w, b: ACTS[act](F.linear(x, w, b)), tensors, DTYPES[dtype],
    )  # fmt: skip
    assert tensors[1].grad.is_contiguous()  # as the weight lies


def test_matmul_in_every_layout(device: str) -> None:
    for turn_a, turn_b in itertools.product((False, True), repeat=2):
        a, b = leaves(device, torch.float32, (9, 24), (24, 17))
        a, b = (
            t.detach().T.contiguous().T if turn else t for t, turn in ((a, turn_a), (b, turn_b))
        )
        check(dlblas.matmul, torch.matmul, [t.detach().requires_grad_() for t in (a, b)], 2e-6)


def test_only_what_is_needed_has_a_gradient(device: str) -> None:
    x, w, b = leaves(device, torch.float32, (9, 24), (17, 24), (17,))
    w.requires_grad_(False)
    dlblas.linear(x, w, b).sum().backward()
    assert w.grad is None and x.grad is not None and b.grad is not None


def test_a_second_derivative_of_matmul(device: str) -> None:
    a, b = leaves(device, torch.float32, (5, 8), (8, 6))
    (da,) = torch.autograd.grad(dlblas.matmul(a, b).square().sum(), a, create_graph=True)
    (db,) = torch.autograd.grad(da.square().sum(), b)
    wide = [t.detach().double().requires_grad_() for t in (a, b)]
    (want,) = torch.autograd.grad((wide[0] @ wide[1]).square().sum(), wide[0], create_graph=True)
    (want,) = torch.autograd.grad(want.square().sum(), wide[1])
    torch.testing.assert_close(db.double(), want, rtol=1e-4, atol=1e-4)


def gated(x: Any, gate: Any, up: Any, act: str, activate: str) -> Any:
    a, b = F.linear(x, gate), F.linear(x, up)
    return ACTS[act](a) * b if activate == "gate" else a * ACTS[act](b)


@dtypes
@pytest.mark.parametrize("activate", ["gate", "up"])
@pytest.mark.parametrize("act", ["silu", "gelu", "gelu_tanh", "relu"])
def test_gated_mlp(act: str, activate: str, dtype: Any, device: str) -> None:
    options: dict[str, Any] = {"activation": act, "activate": activate}
    tensors = leaves(device, dtype, (2, 9, 72), (40, 72), (40, 72))
    check(
        lambda x, g, u: dlblas.gated_mlp(x, g, u, **options),
        lambda x, g, u: gated(x, g, u, act, activate), tensors, DTYPES[dtype],
    )  # fmt: skip
    tensors = leaves(device, dtype, (2, 9, 72), (40, 72), (40, 72), (72, 40))
    check(
        lambda x, g, u, d: dlblas.gated_mlp(x, g, u, w_down=d, **options),
        lambda x, g, u, d: F.linear(gated(x, g, u, act, activate), d), tensors, DTYPES[dtype],
    )  # fmt: skip


@pytest.mark.parametrize("width", [6400, 6401], ids=["in pieces", "whole"])
@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_gated_mlp_of_two_products(kind: str, width: int) -> None:
    """Sums of more than 12 MB are computed in equal pieces of the columns, where there are any."""
    torch.manual_seed(width)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[kind]
    x, out = torch.randn(500, 40, dtype=dtype), torch.zeros(500, 2 * width, dtype=dtype)[:, ::2]
    gate, up = (torch.randn(width, 40, dtype=dtype) / 6 for _ in range(2))
    want = F.silu(x.double() @ gate.double().T) * (x.double() @ up.double().T)
    with dlblas.pinned("gated_linear", "composed"):
        dlblas.gated_linear(x, gate, up, out=out)
        assert torch.equal(dlblas.gated_linear(x, gate, up), out)
    close = {"f32": 1e-5, "bf16": 2**-7}[kind]
    assert bool(((out.double() - want).abs() <= close * want.abs() + 1e-4).all())


@pytest.mark.parametrize("act", ["silu", "gelu"])
def test_fused_gated_mlp_activates_up(act: str, device: str) -> None:
    tensors = leaves(device, torch.float32, (3, 64), (40, 64), (40, 64))
    check(
        lambda x, g, u: dlblas.fused_gated_mlp(x, g, u, act),
        lambda x, g, u: gated(x, g, u, act, "up"), tensors, 2e-6,
    )  # fmt: skip


@pytest.mark.parametrize("wide", [torch.float32, torch.bfloat16], ids=str)
def test_fused_gated_mlp_converts_its_weights(wide: Any, device: str) -> None:
    """As in Triton Fused Operators' kernel, the result has x's dtype and the weights may have
    any."""
    x, gate, up = leaves(device, torch.float16, (3, 64), (40, 64), (40, 64))
    weights = [t.detach().to(wide).requires_grad_() for t in (gate, up)]
    wanted = dlblas.fused_gated_mlp(x, *(t.to(x.dtype) for t in weights))
    for call in (dlblas.fused_gated_mlp, torch.ops.dlblas.fused_gated_mlp):
        y = call(x, *weights)
        assert y.dtype is torch.float16 and torch.equal(y, wanted)
    for leaf, g in zip(weights, torch.autograd.grad(y.sum(), weights), strict=True):
        assert g.dtype is leaf.dtype and g.any()
    mixed = dlblas.fused_gated_mlp(x, gate, weights[1])
    assert mixed.dtype is torch.float16 and mixed.isfinite().all()
    module = dlblas.nn.FusedGatedMLP(64, 40, device=device)  # f32, as it comes
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True, dynamic=True)
    for call in (module, compiled):
        assert call(x.detach()).dtype is torch.float16
    with pytest.raises(errors.UnsupportedDtypeError, match="gate_weight has dtype f64"):
        dlblas.fused_gated_mlp(x, gate.double(), up)
    with pytest.raises(errors.UnsupportedDtypeError, match="w_up has dtype f32"):
        dlblas.gated_mlp(x, gate, up.float())  # which is no name of theirs


def test_fused_gated_mlp_converts_arrays_of_numpy() -> None:
    x, gate, up = (torch.randn(s).numpy() for s in ((3, 64), (40, 64), (40, 64)))
    wanted = dlblas.fused_gated_mlp(*(t.astype("f2") for t in (x, gate, up)))
    got = dlblas.fused_gated_mlp(x.astype("f2"), gate, up)
    assert got.dtype == wanted.dtype and (got == wanted).all()


def test_names_that_are_not_offered() -> None:
    x, w = torch.randn(3, 8), torch.randn(4, 8)
    with pytest.raises(ValueError, match="activate is not offered"):
        dlblas.gated_mlp(x, w, w, activate="down")
    with pytest.raises(ValueError, match="activation is not offered"):
        dlblas.fused_gated_mlp(x, w, w, "relu")
    with pytest.raises(ValueError, match="activation is not offered"):
        dlblas.nn.FusedGatedMLP(8, 4, "relu")
    with pytest.raises(ValueError, match=r'or "relu", got .gelu_tan.; did you mean gelu_tanh'):
        dlblas.nn.GatedMLP(8, 4, "gelu_tan")
    with pytest.raises(ValueError, match="GatedMLP: activate is not offered"):
        dlblas.nn.GatedMLP(8, 4, activate="down")
    with pytest.raises(ValueError, match="Linear: activation is not offered"):
        dlblas.nn.Linear(8, 4, activation="swish")
    with pytest.raises(ValueError, match='GroupNorm: activation is not offered; expected None, ""'):
        dlblas.nn.GroupNorm(2, 4, activation="relu")
    with pytest.raises(errors.ShapeMismatchError, match="linear: weight is no matrix"):
        dlblas.linear(x, w[0])


@dtypes
def test_rms_norm_linear(dtype: Any, device: str) -> None:
    tensors = leaves(device, dtype, (2, 6, 64), (64,), (96, 64))
    check(
        lambda x, g, w: dlblas.rms_norm_linear(x, g, w, 1e-5),
        lambda x, g, w: F.linear(F.rms_norm(x, (64,), g, 1e-5), w), tensors, 2 * DTYPES[dtype],
    )  # fmt: skip


@pytest.mark.parametrize("style", ["neox", "interleaved"])
@pytest.mark.parametrize("tokens", [(6,), (2, 6)])
def test_rms_norm_linear_rotates_q_and_k(tokens: Any, style: str, device: str) -> None:
    x, gain, weight = (
        t.detach() for t in leaves(device, torch.float32, (*tokens, 64), (64,), (112, 64))
    )
    cos, sin = torch.randn(2, 6, 16, device=device).unbind()
    plain = dlblas.rms_norm_linear(x, gain, weight, 1e-5)
    y = dlblas.rms_norm_linear(x, gain, weight, 1e-5, rope=(cos, sin, 3, 2, style))
    q, k = plain[..., :48].unflatten(-1, (3, 16)), plain[..., 48:80].unflatten(-1, (2, 16))
    tables = (t.expand(*tokens, 16) for t in (cos, sin))
    q, k = dlblas.apply_rotary_pos_emb(q, k, *tables, style=style)
    wanted = torch.cat((q.flatten(-2), k.flatten(-2), plain[..., 80:]), -1)
    torch.testing.assert_close(y, wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(errors.ShapeMismatchError, match="weight has too few rows"):
        dlblas.rms_norm_linear(x, gain, weight, rope=(cos, sin, 6, 2))


@pytest.mark.parametrize("act", ["silu", "gelu_tanh"])
def test_norm_gated_linear(act: str, device: str) -> None:
    tensors = leaves(device, torch.float32, (2, 6, 64), (64,), (40, 64), (40, 64))
    check(
        lambda x, n, g, u: dlblas.norm_gated_linear(x, n, g, u, activation=act),
        lambda x, n, g, u: gated(F.rms_norm(x, (64,), n, 1e-6), g, u, act, "gate"), tensors, 5e-6,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_ffn_takes_halves_and_e5m2(dtype: Any, device: str) -> None:
    x = torch.randn(2, 6, 64, device=device).to(dtype)
    narrow = [torch.randn(s, device=device).to(torch.float8_e5m2) for s in ((96, 64), (96, 64))]
    gain = torch.rand(64, device=device).to(torch.float8_e5m2)
    w1, w3, rms_w = (t.to(dtype) for t in (*narrow, gain))
    y = dlblas.kernels.ffn.call(x, w1, w3, rms_w)
    wide = F.rms_norm(x.double(), (64,), rms_w.double(), 1e-6)
    wanted = gated(wide, w1.double(), w3.double(), "silu", "gate")
    assert y.dtype == dtype and y.shape == (2, 6, 96)
    assert (y.double() - wanted).norm() <= DTYPES[dtype] * wanted.norm()
    torch.testing.assert_close(dlblas.kernels.ffn.call(x, *narrow, gain), y, rtol=0, atol=0)
    bits = (t.view(torch.int8) for t in (*narrow, gain))
    torch.testing.assert_close(dlblas.kernels.ffn.call(x, *bits), y, rtol=0, atol=0)
    with pytest.raises(errors.UnsupportedDtypeError, match="w3"):
        dlblas.kernels.ffn.call(x, w1, narrow[1], rms_w)
    with pytest.raises(errors.UnsupportedDtypeError, match="x has"):
        dlblas.kernels.ffn.call(x.float(), w1, w3, rms_w)


# ---- modules -------------------------------------------------------------------------------------


def test_linear_is_a_drop_in(device: str) -> None:
    theirs = torch.nn.Linear(24, 17, device=device)
    ours = dlblas.nn.Linear(24, 17, device=device)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 5, 24, device=device)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-5, atol=1e-5)
    active = dlblas.nn.Linear(24, 17, bias=False, activation="silu", device=device)
    wanted = F.silu(F.linear(x, active.weight))
    torch.testing.assert_close(active(x), wanted, rtol=1e-5, atol=1e-5)
    assert "activation='silu'" in repr(active)


@pytest.mark.parametrize("options", [{}, {"down": False}, {"activate": "up", "activation": "gelu"}])
def test_gated_mlp_module_eager_and_compiled(options: dict[str, Any], device: str) -> None:
    torch._dynamo.reset()
    mlp = dlblas.nn.GatedMLP(64, 96, device=device, **options)
    x = torch.randn(2, 5, 64, device=device, requires_grad=True)
    wanted = gated(
        x, mlp.gate_proj.weight, mlp.up_proj.weight,
        options.get("activation", "silu"), options.get("activate", "gate"),
    )  # fmt: skip
    if mlp.down_proj is not None:
        wanted = F.linear(wanted, mlp.down_proj.weight)
    grads = torch.autograd.grad(wanted.sum(), [x, *mlp.parameters()])
    for run in (mlp, torch.compile(mlp, fullgraph=True, backend="aot_eager")):
        y = run(x)
        torch.testing.assert_close(y, wanted, rtol=1e-4, atol=1e-5)
        for got, want in zip(
            torch.autograd.grad(y.sum(), [x, *mlp.parameters()]), grads, strict=True
        ):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_fused_gated_mlp_module(device: str) -> None:
    mlp = dlblas.nn.FusedGatedMLP(64, 96, "gelu", device=device)
    assert sorted(mlp.state_dict()) == ["gate_weight", "up_weight"]
    assert mlp.gate_weight.shape == mlp.up_weight.shape == (96, 64)
    x = torch.randn(2, 5, 64, device=device)
    wanted = gated(x, mlp.gate_weight, mlp.up_weight, "gelu", "up")
    torch.testing.assert_close(mlp(x), wanted, rtol=1e-4, atol=1e-5)


STYLES = ("neox", "interleaved", "interleaved_to_half")


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("tokens", [(6,), (2, 6)], ids=str)
def test_rope_takes_tables_of_half_the_width(
    style: str, tokens: tuple[int, ...], device: str
) -> None:
    x, weight = torch.randn(*tokens, 32, device=device), torch.randn(7 * 16, 32, device=device)
    gain, angles = torch.rand(32, device=device), torch.rand(6, 8, device=device)
    halves = angles.cos(), angles.sin()
    plain = dlblas.rms_norm_linear(x, gain, weight)
    q, k = plain[..., :48].unflatten(-1, (3, 16)), plain[..., 48:80].unflatten(-1, (2, 16))
    tables = (t.expand(*tokens, 8) for t in halves)
    q, k = dlblas.apply_rotary_pos_emb(q, k, *tables, style=style)
    wanted = torch.cat((q.flatten(-2), k.flatten(-2), plain[..., 80:]), -1)
    by_rows = dlblas.rms_norm_linear(x, gain, weight, rope=(*halves, 3, 2, style))
    # N = (3 + 2 · 2) · 16 determines D.
    torch.testing.assert_close(by_rows, wanted, rtol=1e-5, atol=1e-5)
    whole = [torch.cat((table, table), -1) for table in halves]
    y = dlblas.rms_norm_linear(x, gain, weight, rope=(*whole, 3, 2, style))
    torch.testing.assert_close(y, wanted, rtol=1e-5, atol=1e-5)
    # With additional rows, D must be given, or be the tables' width.
    more = torch.cat((weight, torch.randn(5, 32, device=device)))
    said = dlblas.rms_norm_linear(x, gain, more, rope=(*halves, 3, 2, style, 16))
    torch.testing.assert_close(said[..., :112], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("tables", ["f64", "two dtypes", "in out"])
def test_tables_are_refused_before_anything_is_written(tables: str) -> None:
    """The rotation of this style follows the projection, which has filled out by then."""
    torch = pytest.importorskip("torch")
    x, gain, weight = (torch.randn(*shape) for shape in ((3, 8), (8,), (32, 8)))
    out = torch.zeros(3, 32)
    cos, sin = torch.randn(3, 8), torch.randn(3, 8)
    words, error = "rope has tables of another dtype; expected f32 or f32 for both", TypeError
    if tables == "f64":
        cos, sin = cos.double(), sin.double()
    elif tables == "two dtypes":
        sin = sin.half()
    else:
        cos, sin = out[:, :8], out[:, 8:16]
        words, error = r"out overlaps rope\[0\]", ValueError
    with pytest.raises(error, match=words):
        dlblas.rms_norm_linear(
            x, gain, weight, rope=(cos, sin, 2, 1, "interleaved_to_half"), out=out
        )
    assert not out.any()


@pytest.mark.parametrize(
    ("rope", "error", "words"),
    [
        (5, TypeError, "rope has another form; expected .*got int"),
        (("cos", "sin", 1), TypeError, "rope has another form; .*got 3 values"),
        ((None, "sin", 1, 1), TypeError, "rope has no table as cos; expected an array, got None"),
        (("cos", [1.0], 1, 1), TypeError, "rope has no table as sin; .*got list"),
        (("cos", "sin", 1.5, 1), TypeError, "rope has no number as heads; .*got float"),
        (("cos", "sin", 1, None), TypeError, "rope has no number as kv_heads"),
        (("cos", "sin", 1, -1), ValueError, "rope has a wrong kv_heads; expected 0 or more"),
        (("cos", "sin", 1, 1, "gpt"), ValueError, "rope has another style; expected neox"),
        (("cos", "sin", 1, 1, "neox", 7), ValueError, "rope has another D; expected 8 or 16"),
        (("long", "long", 1, 1), ValueError, "rope has tables of another shape; expected"),
        (("cos", "long", 1, 1), ValueError, "rope has tables of two shapes; expected"),
        (("cos", "sin", 2, 2), ValueError, "weight has too few rows; expected 4 heads of 8"),
    ],
)
def test_what_is_no_rope(rope: Any, error: type[Exception], words: str) -> None:
    x, gain, weight = torch.randn(5, 16), torch.rand(16), torch.randn(24, 16)
    named = {"cos": torch.rand(5, 8), "sin": torch.rand(5, 8), "long": torch.rand(9, 8)}
    if isinstance(rope, tuple):
        rope = tuple(named.get(part, part) if isinstance(part, str) else part for part in rope)
    with pytest.raises(error, match=f"rms_norm_linear: {words}") as caught:
        dlblas.rms_norm_linear(x, gain, weight, rope=rope)
    assert isinstance(caught.value, errors.Error)


@pytest.mark.parametrize("sizes", [(4, 6), (0, 6), (4, 0), (3, 4, 6)], ids=str)
def test_leading_dimensions_may_lie_in_any_way(sizes: tuple[int, ...], device: str) -> None:
    """The leading dimensions of a transposed batch are not rows at one stride."""
    half = torch.float16
    x = torch.randn(*sizes, 16, device=device).transpose(-2, -3)
    weight, gain = torch.randn(8, 16, device=device), torch.rand(16, device=device)
    turned = {
        "linear": lambda x: dlblas.linear(x, weight),
        "gated_mlp": lambda x: dlblas.gated_mlp(x, weight, weight, w_down=weight.T.contiguous()),
        "fused_gated_mlp": lambda x: dlblas.fused_gated_mlp(x, weight, weight),
        "rms_norm_linear": lambda x: dlblas.rms_norm_linear(x, gain, weight),
        "ffn": lambda x: dlblas.kernels.ffn.call(
            x.to(half), weight.to(half), weight.to(half), gain.to(half)
        ),
        "Linear": dlblas.nn.Linear(16, 8, device=device),
        "GatedMLP": dlblas.nn.GatedMLP(16, 8, device=device),
    }
    for name, call in turned.items():
        y, wanted = call(x), call(x.contiguous())
        assert torch.equal(y, wanted) and y.shape[:-1] == x.shape[:-1], name
    compiled = torch.compile(turned["linear"], backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), F.linear(x, weight))
    x.requires_grad_()
    (made,) = torch.autograd.grad(dlblas.linear(x, weight).sum(), [x])
    torch.testing.assert_close(made, weight.sum(0).expand_as(x))
    y = dlblas.linear(x.detach().cpu().numpy(), weight.cpu().numpy())
    torch.testing.assert_close(torch.from_numpy(y), F.linear(x.detach().cpu(), weight.cpu()))


def test_no_columns_have_gradients_too(device: str) -> None:
    x, weight = (torch.randn(s, device=device, requires_grad=True) for s in ((2, 3, 0), (4, 0)))
    dlblas.linear(x, weight).sum().backward()
    assert x.grad.shape == x.shape and weight.grad.shape == weight.shape


@pytest.mark.parametrize("missing", ["x", "weight"])
def test_none_is_no_tensor(missing: str) -> None:
    given: dict[str, Any] = {"x": torch.randn(3, 8), "weight": torch.randn(5, 8), missing: None}
    with pytest.raises(errors.ArgumentTypeError, match=f"linear: {missing} is no array; expected"):
        dlblas.linear(**given)
    one = given["x"] if missing == "weight" else given["weight"]
    for call in (dlblas.gated_mlp, dlblas.fused_gated_mlp, dlblas.rms_norm_linear):
        with pytest.raises(errors.ArgumentTypeError, match="is no array; expected a torch tensor"):
            call(None, one, one)
    with pytest.raises(errors.ArgumentTypeError, match=r"ffn.call: w3 is no array"):
        dlblas.kernels.ffn.call(one.half(), one.half(), None, one.half())


@pytest.mark.parametrize("counted", [True, False], ids=["copy_", "data"])
def test_ffn_sees_every_write_into_a_weight(counted: bool, device: str) -> None:
    from dlblas.kernels import ffn

    narrow = torch.float8_e5m2
    x, gain = torch.randn(4, 64, device=device).half(), torch.rand(64, device=device).to(narrow)
    w1, w3 = (torch.randn(96, 64, device=device).to(narrow) for _ in range(2))
    first = ffn.call(x, w1, w3, gain)
    (w1 if counted else w1.data).copy_(torch.randn(96, 64, device=device).to(narrow))
    again = ffn.call(x, w1, w3, gain)
    assert torch.equal(again, ffn.call(x, *(t.half() for t in (w1, w3, gain))))
    assert not torch.equal(again, first)


@pytest.mark.parametrize("x", [None, 3, "x"], ids=repr)
def test_modules_refuse_what_is_no_tensor(x: Any) -> None:
    """By the library's own errors, also inside autocast."""
    layer = dlblas.nn.Linear(8, 8)
    others = dlblas.nn.GatedMLP(8, 8), dlblas.nn.FusedGatedMLP(8, 8), dlblas.nn.FP8Linear(8, 8)
    for module in (layer, layer.packed(), *others):
        for enabled in (False, True):
            with (
                torch.autocast("cpu", enabled=enabled),
                pytest.raises(errors.Error, match=r": x (is|has) no"),
            ):
                module(x)
