"""group_norm and layernorm_gated on torch tensors as models use them: images, channels_last, groups
of channels, gates before and after the norm.

Shapes, layouts and special values of the rows are in ops/norm/*_rows/cases.json. Every test runs on
the CPU and, where there is one, on a GPU. Read next: ops/norm/api.py.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
from dlblas import errors  # noqa: E402
from dlblas.kernels import layernorm_gated as old  # noqa: E402
from torch_gradients import DTYPES, every_device  # noqa: E402, F401

F = torch.nn.functional


def check(got: Any, want: Any) -> None:
    """Bound: some f32 roundings of the largest value, plus one rounding of the dtype."""
    assert got.shape == want.shape
    if want.numel() == 0:
        return
    bound = torch.finfo(got.dtype).eps / 2 * want.abs() + 2e-6 * want.abs().amax() + 1e-7
    assert ((got.double() - want).abs() <= bound).all(), (got.double() - want).abs().max()


@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
@pytest.mark.parametrize(
    ("shape", "groups"), [((2, 32, 8, 8), 8), ((3, 6, 7, 5), 3), ((2, 12), 4), ((1, 8, 33), 8),
                          ((2, 64, 4, 4, 4), 1), ((0, 8, 4), 2)],
)  # fmt: skip
def test_group_norm(
    shape: tuple[int, ...], groups: int, dtype: Any, activation: str | None, device: str
) -> None:
    x = (torch.randn(shape, device=device) * 3 + 1).to(dtype)
    for wide in (torch.float32, dtype):
        weight, bias = (torch.randn(shape[1], device=device).to(wide) for _ in range(2))
        want = F.group_norm(x.double(), groups, weight.double(), bias.double())
        want = F.silu(want) if activation else want
        check(dlblas.group_norm(x, groups, weight, bias, activation=activation), want)
    check(dlblas.group_norm(x, groups, eps=1e-3), F.group_norm(x.double(), groups, eps=1e-3))


def test_group_norm_of_another_memory_order(device: str) -> None:
    x = torch.randn(2, 16, 6, 5, device=device).to(memory_format=torch.channels_last)
    weight = torch.randn(16, device=device)
    check(dlblas.group_norm(x, 4, weight), F.group_norm(x.double(), 4, weight.double()))


@pytest.mark.parametrize("rms", [False, True])
@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
@pytest.mark.parametrize("size", [None, 64, 24])
def test_layernorm_gated(
    size: int | None, dtype: Any, behind: bool, rms: bool, device: str
) -> None:
    x, z = (torch.randn(2, 5, 192, device=device).to(dtype) for _ in range(2))
    weight, bias = torch.randn(192, device=device).to(dtype), torch.randn(192, device=device)
    wide, gate = x.double(), F.silu(z.double())
    v = wide if behind else wide * gate
    rows = v.unflatten(-1, (-1, size or 192))
    if not rms:
        rows = rows - rows.mean(-1, keepdim=True)
    normed = rows / (rows.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    want = normed.flatten(-2) * weight.double()
    how = {"eps": 1e-5, "group_size": size, "norm_before_gate": behind, "is_rms_norm": rms}
    got = dlblas.layernorm_gated(x, weight, None, z, **how)
    check(got, want * gate if behind else want)
    bias = bias.to(dtype)
    biased = (want + bias.double()) * (gate if behind else 1)
    check(dlblas.layernorm_gated(x, weight, bias, z, **how), biased)
    function = old.rmsnorm_fn if rms else old.layernorm_fn
    by_old = function(x, weight, None, z=z, eps=1e-5, group_size=size, norm_before_gate=behind)
    assert torch.equal(by_old, got)


def test_a_slice_is_read_in_place(device: str) -> None:
    whole = torch.randn(7, 96 * 3, device=device, dtype=torch.bfloat16)
    x, z = whole[:, :96], whole[:, 96:192]
    got = dlblas.layernorm_gated(x, None, None, z, group_size=32)
    assert torch.equal(got, dlblas.layernorm_gated(x.clone(), None, None, z.clone(), group_size=32))


def test_in_numpy() -> None:
    x = np.random.default_rng(2).standard_normal((2, 8, 6), np.float32)
    want = F.group_norm(torch.from_numpy(x).double(), 2, torch.arange(8.0).double())
    got = dlblas.group_norm(x, 2, np.arange(8, dtype=np.float32))
    check(torch.from_numpy(np.asarray(got)), want)


@pytest.mark.parametrize("shape", [(2, 4, 0), (0, 4, 3), (2, 4, 0, 5), (2, 0, 3)])
def test_group_norm_of_nothing(shape: tuple[int, ...], device: str) -> None:
    x = torch.zeros(shape, device=device, requires_grad=True)
    vectors = [torch.ones(shape[1], device=device, requires_grad=True) for _ in range(2)]
    y = dlblas.group_norm(x, 2, *vectors)
    assert y.shape == shape == torch.ops.dlblas.group_norm(x, 2, *vectors).shape
    y.sum().backward()
    assert x.grad.shape == shape and not any(v.grad.any() for v in vectors)
    out = torch.empty(shape, device=device)
    with torch.no_grad():
        assert dlblas.group_norm(x, 2, *vectors, out=out) is out


def turned(dtype: Any, device: str) -> Any:
    """A [2, 8, 4, 4] tensor that no view turns into rows of groups: a result reaches it through a
    copy."""
    made = torch.zeros(2, 8, 4, 4, dtype=dtype, device=device)
    return made.to(memory_format=torch.channels_last)


def test_a_view_exists_where_torch_makes_one() -> None:
    """dlblas._spread._has_view, which torch.compile can trace, beside the exception of `view`."""
    from dlblas._spread import _has_view

    pick = random.Random(3)
    found = [0, 0]
    for _ in range(2000):
        shape = [pick.choice((1, 2, 3, 4)) for _ in range(pick.randint(0, 4))]
        base = torch.empty([n * pick.choice((1, 1, 2)) for n in shape])
        t = base[tuple(slice(n) for n in shape)] if shape else base
        t = t.permute(pick.sample(range(t.ndim), t.ndim)) if pick.random() < 0.5 else t
        wanted, left = [], t.numel()
        while left > 1 or pick.random() < 0.3:
            wanted.append(pick.choice([n for n in range(1, left + 1) if left % n == 0]))
            left //= wanted[-1]
        try:
            t.view(wanted)
            has = True
        except RuntimeError:
            has = False
        assert _has_view(t.shape, t.stride(), tuple(wanted)) == has, (t.shape, t.stride(), wanted)
        found[has] += 1
    assert min(found) > 100


def test_a_result_of_another_memory_order(device: str) -> None:
    x, out = torch.randn(2, 8, 4, 4, device=device), turned(torch.float32, device)
    assert dlblas.group_norm(x, 2, out=out) is out
    assert torch.equal(out, dlblas.group_norm(x, 2))
    columns = torch.empty(6, 4, device=device).t()
    y = torch.randn(4, 6, device=device)
    dlblas.layernorm_gated(y, None, group_size=3, out=columns)
    assert torch.equal(columns, dlblas.layernorm_gated(y, None, group_size=3))
    again = turned(torch.float32, device)
    torch._dynamo.reset()
    call = torch.compile(
        lambda x, out: dlblas.group_norm(x, 2, out=out), backend="aot_eager", fullgraph=True
    )
    call(x, again)
    assert torch.equal(again, out)


def test_a_place_that_does_not_fit(device: str) -> None:
    """With or without a copy in between: nothing is converted, nothing written."""
    x = torch.randn(2, 8, 4, 4, device=device)
    plain = torch.zeros(2, 8, 4, 4, dtype=torch.int32, device=device)
    for out in (plain, turned(torch.int32, device), turned(torch.float64, device)):
        with pytest.raises(errors.UnsupportedDtypeError, match="out has dtype"):
            dlblas.group_norm(x, 2, out=out)
        assert not out.any()
    one = torch.zeros(1, 8, 4, 4, device=device).to(memory_format=torch.channels_last)
    leaf = turned(torch.float32, device).requires_grad_()
    for out, words in (
        (one.expand(2, 8, 4, 4), "out overlaps itself"),
        (leaf, "out requires grad"),
        (turned(torch.float32, device).to_sparse(), "out is not a dense tensor"),
        ([1.0], "out has no shape"),
        ("x", "out has no shape"),
    ):
        with pytest.raises(errors.ArgumentError, match=words) as caught:
            dlblas.group_norm(x, 2, out=out)
        assert caught.value.argument == "out"
    with pytest.raises(errors.ArgumentError, match="x requires grad"):
        dlblas.group_norm(x.requires_grad_(), 2, out=turned(torch.float32, device))
    frozen = np.zeros((2, 4, 4, 8), np.float32).transpose(0, 3, 1, 2)
    frozen.flags.writeable = False
    with pytest.raises(errors.ArgumentError, match="out is read-only"):
        dlblas.group_norm(x.detach().cpu().numpy(), 2, out=frozen)


@pytest.mark.parametrize("count", [True, None, 2.0, "2"])
def test_a_number_of_groups_is_an_integer(count: Any) -> None:
    for x in (torch.randn(2, 8, 4), np.ones((2, 8, 4), np.float32)):
        with pytest.raises(errors.ArgumentTypeError, match=r"groups .*expected an integer"):
            dlblas.group_norm(x, count)
        if count is not None:
            with pytest.raises(errors.ArgumentTypeError, match=r"group_size .*expected an int"):
                dlblas.layernorm_gated(x, None, group_size=count)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda x: dlblas.group_norm(x, 3),
            "groups does not fit; expected a divisor of 8, .*, got 3",
        ),
        (lambda x: dlblas.group_norm(x, 2, torch.ones(7)), r"weight does not fit; expected \[8\]"),
        (lambda x: dlblas.layernorm_gated(x, None, group_size=4), "group_size .* divisor of 6"),
        (lambda x: dlblas.layernorm_gated(x, None, torch.ones(3)), "bias does not fit"),
        (lambda x: dlblas.layernorm_gated(x, None, None, x[:1]), "z does not fit"),
    ],
)
def test_what_does_not_fit(call: Any, words: str) -> None:
    with pytest.raises(errors.ShapeMismatchError, match=words):
        call(torch.randn(2, 8, 6))


def check_gradients(run: Any, formula: Any, leaves: list[Any]) -> None:
    """Against torch's gradients of the formula in f64, for a dy that differs in every element."""
    wide = [t.detach().double().requires_grad_() for t in leaves]
    want = formula(*wide)
    dy = torch.randn_like(want).to(leaves[0].dtype)
    want.backward(dy.double())
    got = run(*leaves)
    got.backward(dy)
    for ours, theirs in zip(leaves, wide, strict=True):
        assert ours.grad.dtype == ours.dtype
        bound = 4 * torch.finfo(got.dtype).eps + 1e-5
        off = (ours.grad.double() - theirs.grad).abs().max()
        assert off <= bound * theirs.grad.abs().max(), off


def leaf(shape: tuple[int, ...], dtype: Any, device: str) -> Any:
    return torch.randn(shape, device=device).to(dtype).requires_grad_()


@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
def test_gradients_of_group_norm(dtype: Any, activation: str | None, device: str) -> None:
    leaves = [leaf((3, 12, 5, 4), dtype, device), *(leaf((12,), dtype, device) for _ in range(2))]

    def formula(x: Any, weight: Any = None, bias: Any = None) -> Any:
        y = F.group_norm(x, 4, weight, bias)
        return F.silu(y) if activation else y

    def run(x: Any, weight: Any = None, bias: Any = None) -> Any:
        return dlblas.group_norm(x, 4, weight, bias, activation=activation)

    check_gradients(run, formula, leaves)
    check_gradients(run, formula, [leaf((3, 12, 5, 4), dtype, device)])


@pytest.mark.parametrize("rms", [False, True])
@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
def test_gradients_of_layernorm_gated(dtype: Any, behind: bool, rms: bool, device: str) -> None:
    def formula(x: Any, weight: Any, bias: Any, z: Any = None) -> Any:
        gate = 1 if z is None else F.silu(z)
        rows = (x if behind else x * gate).unflatten(-1, (-1, 16))
        if not rms:
            rows = rows - rows.mean(-1, keepdim=True)
        y = (rows / (rows.square().mean(-1, keepdim=True) + 1e-5).sqrt()).flatten(-2)
        y = y * weight + bias
        return y * gate if behind else y

    def run(x: Any, weight: Any, bias: Any, z: Any = None) -> Any:
        return dlblas.layernorm_gated(x, weight, bias, z, 1e-5, 16, behind, rms)

    vectors = [leaf((48,), dtype, device) for _ in range(2)]
    z = leaf((2, 5, 48), dtype, device)
    check_gradients(run, formula, [leaf((2, 5, 48), dtype, device), *vectors, z])
    vectors = [leaf((48,), dtype, device) for _ in range(2)]
    check_gradients(run, formula, [leaf((2, 5, 48), dtype, device), *vectors])


@pytest.mark.parametrize("affine", [True, False])
def test_the_module_is_torchs(affine: bool, device: str) -> None:
    ours = dlblas.nn.GroupNorm(4, 12, 1e-4, affine, device=device)
    theirs = torch.nn.GroupNorm(4, 12, 1e-4, affine, device=device)
    if affine:
        theirs.weight.data.normal_(), theirs.bias.data.normal_()
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 12, 7, 3, device=device)
    check(ours(x), theirs.double()(x.double()))
    silu = dlblas.nn.GroupNorm(4, 12, 1e-4, affine, device=device, activation="silu")
    silu.load_state_dict(ours.state_dict())
    check(silu(x), F.silu(theirs(x.double())))
    assert repr(ours) == f"GroupNorm(4, 12, eps=0.0001, affine={affine})"
    with pytest.raises(errors.ShapeMismatchError, match="a number that 5 groups divide, got 12"):
        dlblas.nn.GroupNorm(5, 12)
