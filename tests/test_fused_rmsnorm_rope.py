"""fused_rmsnorm_rope and its module in torch and NumPy: tables of every shape, strides, compiled.

Shapes, layouts and special values of the operator are in ops/rope/rms_norm_rope/cases.json; this
file covers what they cannot express. Read next: ops/rope/api.py,
python/dlblas/nn/fused_rmsnorm_rope.py.
"""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas.errors import ArgumentTypeError, ShapeMismatchError

torch = pytest.importorskip("torch")

import dlblas.nn  # noqa: E402
import dlblas.torch  # noqa: E402

B, S, H, D = 3, 5, 4, 32


def wanted(x: Any, weight: Any, cos: Any, sin: Any, eps: float = 1e-6) -> Any:
    """The formula in f64; cos and sin are [S, D] or [B, S, D]."""
    x = x.double()
    normed = x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() * weight.double()
    low, high = normed.unflatten(-1, (-1, cos.shape[-1])).chunk(2, -1)
    c, s = (t.double()[..., None, : cos.shape[-1] // 2] for t in (cos, sin))
    return torch.cat([low * c - high * s, high * c + low * s], -1).flatten(-2)


def arguments(dtype: Any = torch.float32) -> tuple[Any, ...]:
    torch.manual_seed(3)
    x, weight = torch.randn(B, S, H * D).to(dtype), torch.randn(H * D).to(dtype)
    # The second halves of the tables differ from the first ones: they must not be read.
    return x, weight, torch.randn(S, D).to(dtype), torch.randn(S, D).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_tables_of_every_shape(dtype: Any) -> None:
    x, weight, cos, sin = arguments(dtype)
    want = wanted(x, weight, cos, sin)
    first = dlblas.fused_rmsnorm_rope(x, weight, cos, sin)
    torch.testing.assert_close(first.double(), want, rtol=4 * torch.finfo(dtype).eps, atol=1e-5)
    for shape in ((1, S, D), (1, S, 1, D)):
        tables = cos.view(shape), sin.view(shape)
        assert torch.equal(dlblas.fused_rmsnorm_rope(x, weight, *tables), first)
    own = torch.randn(2, B, S, 1, D).to(dtype)
    got = dlblas.fused_rmsnorm_rope(x, weight, *own, num_heads=H)
    other = wanted(x, weight, *own[..., 0, :])
    torch.testing.assert_close(got.double(), other, rtol=4 * torch.finfo(dtype).eps, atol=1e-5)


def test_slices_and_numpy() -> None:
    x, weight, cos, sin = arguments()
    want = dlblas.fused_rmsnorm_rope(x, weight, cos, sin)
    whole = torch.randn(B, S, 3 * H * D)
    part = whole[..., H * D : 2 * H * D]
    part.copy_(x)
    assert torch.equal(dlblas.fused_rmsnorm_rope(part, weight, cos, sin), want)
    got = dlblas.fused_rmsnorm_rope(*(t.numpy() for t in (x, weight, cos, sin)))
    np.testing.assert_array_equal(got, want.numpy())


def test_what_does_not_fit() -> None:
    x, weight, cos, sin = arguments()
    with pytest.raises(ShapeMismatchError, match="x has another shape; expected a last dimension"):
        dlblas.fused_rmsnorm_rope(x[..., :-1], weight, cos, sin)
    for heads, words in ((3, "4 or 2"), (1, "4 or 2"), (0, "4 or 2")):
        with pytest.raises(ShapeMismatchError, match=f"num_heads does not fit; expected {words} f"):
            dlblas.fused_rmsnorm_rope(x, weight, cos, sin, num_heads=heads)
    wide = torch.randn(S, 40)
    with pytest.raises(ShapeMismatchError, match="num_heads does not fit; expected a divisor of 1"):
        dlblas.fused_rmsnorm_rope(x, weight, wide, wide, num_heads=3)
    with pytest.raises(ShapeMismatchError, match=r"cos has another shape; .* dimension of 32"):
        dlblas.fused_rmsnorm_rope(x, weight, wide, wide, num_heads=4)
    with pytest.raises(ShapeMismatchError, match="cos has another shape"):
        dlblas.fused_rmsnorm_rope(x, weight, cos[:3], sin)
    with pytest.raises(ShapeMismatchError, match="weight"):
        dlblas.fused_rmsnorm_rope(x, weight[:-1], cos, sin)
    with pytest.raises(ShapeMismatchError, match="head_dim does not fit"):
        dlblas.nn.FusedRMSNormRoPE(128, 24)


def test_module() -> None:
    x, weight, cos, sin = arguments()
    module = dlblas.nn.FusedRMSNormRoPE(H * D, D, 1e-5)
    assert module.num_heads == H and torch.equal(module.weight, torch.ones(H * D))
    module.load_state_dict({"weight": weight})
    with torch.no_grad():
        torch.testing.assert_close(
            module(x, cos, sin), wanted(x, weight, cos, sin, 1e-5).float(), rtol=1e-5, atol=1e-5
        )
        compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="aot_eager")
        assert torch.equal(compiled(x, cos, sin), module(x, cos, sin))
    module.eval()
    y = module(x.requires_grad_(), cos, sin)  # in grad mode, as old code calls it
    y.square().mean().backward()
    assert x.grad is not None and module.weight.grad.shape == (H * D,)
    assert repr(module) == "FusedRMSNormRoPE(128, 32, eps=1e-05)"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients(compiled: bool, dtype: Any) -> None:
    """Against torch's gradients of the formula in f64; the tables' unread halves get zeros."""
    leaves = [t.requires_grad_() for t in arguments(dtype)]
    wide = [t.detach().double().requires_grad_() for t in leaves]
    want = wanted(*wide)
    dy = torch.randn_like(want).to(dtype)
    want.backward(dy.double())
    run = dlblas.fused_rmsnorm_rope
    if compiled:
        run = torch.compile(run, fullgraph=True, backend="aot_eager")
    run(*leaves).backward(dy)
    for ours, theirs in zip(leaves, wide, strict=True):
        assert ours.grad.dtype == dtype
        bound = (4 * torch.finfo(dtype).eps + 1e-5) * theirs.grad.abs().max()
        assert (ours.grad.double() - theirs.grad).abs().max() <= bound


def test_opcheck() -> None:
    x, weight, cos, sin = arguments()
    call = x[0].view(S, H, D), weight.view(H, D), cos, sin
    for form in ("rms_norm_rope", "rms_norm_rope_"):
        result = torch.library.opcheck(getattr(torch.ops.dlblas, form), call)
        assert set(result.values()) == {"SUCCESS"}


def test_no_heads_have_gradients_of_nothing() -> None:
    x, weight = torch.zeros(2, 5, 0, requires_grad=True), torch.zeros(0, requires_grad=True)
    cos = torch.ones(5, 16, requires_grad=True)
    dlblas.fused_rmsnorm_rope(x, weight, cos, cos).sum().backward()
    assert x.grad.shape == x.shape and weight.grad.shape == (0,)
    assert cos.grad.shape == cos.shape and not cos.grad.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tables_of_half_the_width(dtype: Any) -> None:
    """The number of heads determines D, so half-width tables suffice: only the first halves are
    read."""
    x, weight, cos, sin = arguments(dtype)
    want = dlblas.fused_rmsnorm_rope(x, weight, cos, sin)
    halves = cos[:, : D // 2], sin[:, : D // 2]
    for tables in (halves, tuple(t[:, None] for t in halves), (halves[0], sin)):
        got = dlblas.fused_rmsnorm_rope(x, weight, *tables, num_heads=H)
        assert torch.equal(got, want)
    arrays = [t.float().numpy() for t in (x, weight, *halves)]
    torch.testing.assert_close(
        torch.from_numpy(dlblas.fused_rmsnorm_rope(*arrays, num_heads=H)),
        dlblas.fused_rmsnorm_rope(*(t.float() for t in (x, weight, cos, sin))),
    )
    module = dlblas.nn.FusedRMSNormRoPE(H * D, D, dtype=dtype)
    module.load_state_dict({"weight": weight})
    torch._dynamo.reset()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for run in (module, compiled):
        assert torch.equal(run(x, *halves), want)
    leaves = [t.clone().requires_grad_() for t in (x, weight, *halves)]
    whole = [t.clone().requires_grad_() for t in (x, weight, cos, sin)]
    dlblas.fused_rmsnorm_rope(*leaves, num_heads=H).square().sum().backward()
    dlblas.fused_rmsnorm_rope(*whole).square().sum().backward()
    for ours, theirs in zip(leaves, whole, strict=True):
        assert torch.equal(ours.grad, theirs.grad[..., : ours.shape[-1]])


def test_a_one_before_the_columns_where_the_batch_is_as_long_as_a_sequence() -> None:
    x, weight, cos, sin = arguments()
    x = torch.randn(S, S, H * D)
    want = dlblas.fused_rmsnorm_rope(x, weight, cos, sin)
    assert torch.equal(dlblas.fused_rmsnorm_rope(x, weight, cos[:, None], sin[:, None]), want)


@pytest.mark.parametrize(
    ("given", "words", "kind"),
    [(("x", 8), "hidden_dim .* expected an integer, got str", ArgumentTypeError),
     ((None, 8), "hidden_dim .* expected an integer, got None", ArgumentTypeError),
     ((64.0, 8), "hidden_dim .* expected an integer, got float", ArgumentTypeError),
     ((64, 8.0), "head_dim .* expected an integer, got float", ArgumentTypeError),
     ((64, [8]), "head_dim .* expected an integer, got list", ArgumentTypeError),
     ((-8, 8), "hidden_dim does not fit; expected 0 or more, got -8", ShapeMismatchError),
     ((64, 0), "head_dim does not fit; expected an even divisor", ShapeMismatchError)],
)  # fmt: skip
def test_sizes_of_the_module(given: Any, words: str, kind: Any) -> None:
    with pytest.raises(kind, match=f"FusedRMSNormRoPE: {words}"):
        dlblas.nn.FusedRMSNormRoPE(*given)
    assert dlblas.nn.FusedRMSNormRoPE(np.int64(64), np.int64(8)).num_heads == 8
