"""dlblas.cross_entropy on torch tensors: losses and gradients against torch's own function in f64.

Every test runs on the CPU and, where there is one, on a GPU. Shapes, layouts and special values are
in ops/loss/*/cases.json. Read next: torch_gradients.py, ops/loss/api.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
from dlblas import errors  # noqa: E402
from torch_gradients import DTYPES, every_device  # noqa: E402, F401

WAYS = {
    "plain": {},
    "weighted": {"weight": True},
    "smoothed": {"label_smoothing": 0.1},
    "smoothed, weighted": {"label_smoothing": 0.3, "weight": True},
    "capped": {"softcap": 5.0},
    "z-loss": {"lse_square_scale": 1e-2},
    "everything": {
        "label_smoothing": 0.1, "weight": True, "softcap": 5.0, "lse_square_scale": 1e-2,
    },
}  # fmt: skip


def reference(x: Any, target: Any, how: dict[str, Any], reduction: str, ignored: int) -> Any:
    """torch's cross_entropy, with the softcap and the z-loss that it lacks."""
    cap, scale = how.get("softcap"), how.get("lse_square_scale", 0.0)
    if cap:
        x = cap * torch.tanh(x / cap)
    counts = target != ignored
    loss = torch.nn.functional.cross_entropy(
        x.flatten(0, -2), target.flatten(), how.get("weight"), ignore_index=ignored,
        reduction=reduction, label_smoothing=how.get("label_smoothing", 0.0),
    )  # fmt: skip
    z = scale * x.logsumexp(-1).square() * counts
    if reduction == "none":
        return loss.view(target.shape) + z
    return loss + (z.sum() if reduction == "sum" else z.sum() / counts.sum())


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
@pytest.mark.parametrize("name", WAYS)
def test_loss_and_gradient(name: str, dtype: Any, reduction: str, device: str) -> None:
    torch.manual_seed(3)
    for shape, classes in (((7,), 13), ((2, 5), 100), ((3,), 4099)):
        how = dict(WAYS[name])
        if "weight" in how:
            how["weight"] = torch.rand(classes, device=device) + 0.5
        x = (3 * torch.randn(*shape, classes, device=device)).to(dtype).requires_grad_()
        target = torch.randint(0, classes, shape, device=device)
        target.view(-1)[0] = -100
        loss = dlblas.cross_entropy(x, target, reduction=reduction, **how)
        wide = x.detach().double().requires_grad_()
        if "weight" in how:
            how["weight"] = how["weight"].double()
        want = reference(wide, target, how, reduction, -100)
        torch.testing.assert_close(loss.double(), want, rtol=3e-6, atol=3e-6)
        share = torch.rand(loss.shape, device=device)
        (got,) = torch.autograd.grad(loss, x, share)
        (right,) = torch.autograd.grad(want, wide, share.double())
        kind = torch.finfo(dtype)
        bound = kind.eps / 2 * right.abs() + 1e-5 * right.abs().amax(-1, True)
        bound = bound + kind.smallest_normal * kind.eps + 1e-9
        assert ((got.double() - right).abs() <= bound).all()
        assert got.dtype is dtype and not got.flatten(0, -2)[0].any()


def test_without_a_row_that_counts_it_is_torchs_nan(device: str) -> None:
    x, target = torch.randn(3, 9, device=device), torch.full((3,), 7, device=device)
    assert dlblas.cross_entropy(x, target, ignore_index=7).isnan()
    assert dlblas.cross_entropy(x, target, ignore_index=7, reduction="sum") == 0


def test_a_class_that_is_not_there_is_no_number(device: str) -> None:
    x = torch.randn(3, 9, device=device, requires_grad=True)
    target = torch.tensor([2, 9, -1], device=device)
    loss = dlblas.cross_entropy(x, target, reduction="none")
    assert loss.isnan().tolist() == [False, True, True]
    loss.sum().backward()
    assert x.grad.isnan().any(-1).tolist() == [False, True, True]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_an_ignored_row_may_hold_anything(reduction: str, bad: float, device: str) -> None:
    """Its logits affect neither the loss, nor the z-loss, nor a gradient."""
    torch.manual_seed(3)
    target = torch.tensor([-100, 1, 2], device=device)
    for how in (
        {"lse_square_scale": 1e-2},
        {"lse_square_scale": 1e-2, "label_smoothing": 0.1, "softcap": 5.0},
        {"weight": torch.rand(70, device=device), "lse_square_scale": 1e-2},
        {},
    ):
        x = torch.randn(3, 70, device=device)
        good = x.clone().requires_grad_()
        x[0, :: 1 + (bad == float("inf"))] = bad
        x.requires_grad_()
        options = {**how, "reduction": reduction, "return_z_loss": True}
        got, want = (dlblas.cross_entropy(one, target, **options) for one in (x, good))
        assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1])
        got[0].sum().backward()
        want[0].sum().backward()
        assert torch.equal(x.grad, good.grad) and not x.grad[0].any()
        host = {k: v.cpu().numpy() if hasattr(v, "cpu") else v for k, v in options.items()}
        by_numpy = dlblas.cross_entropy(x.detach().cpu().numpy(), target.cpu().numpy(), **host)
        np.testing.assert_allclose(by_numpy[0], want[0].detach().cpu(), rtol=1e-5)
        np.testing.assert_allclose(by_numpy[1], want[1].detach().cpu(), rtol=1e-5)


@pytest.mark.parametrize("target", [[1, 5, -100], [1, -1, -100], [2**40, 1, 0]])
def test_weights_and_a_class_that_is_not_there(target: list[int], device: str) -> None:
    """The result is NaN, as without weights, and no weight past the last is read: torch raises an
    error on the host for this and corrupts the context on a GPU."""
    x, weight = torch.randn(3, 5, device=device), torch.rand(5, device=device)
    labels = torch.tensor(target, device=device)
    assert dlblas.cross_entropy(x, labels, weight).isnan()
    assert np.isnan(
        dlblas.cross_entropy(x.cpu().numpy(), labels.cpu().numpy(), weight.cpu().numpy())
    )
    rows = dlblas.cross_entropy(x, labels, weight, reduction="none")
    there = (labels == -100) | ((labels >= 0) & (labels < 5))
    assert torch.equal(rows.isnan(), ~there)
    none = torch.full((3,), -100, device=device)
    assert dlblas.cross_entropy(x[:, :0], none, weight[:0]).isnan()  # no class at all


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_class_weights_of_the_dtype_of_the_logits(
    dtype: Any, smoothing: float, device: str
) -> None:
    x = torch.randn(6, 9, device=device).to(dtype).requires_grad_()
    target = torch.randint(0, 9, (6,), device=device)
    weight = torch.rand(9, device=device).to(dtype)
    got = dlblas.cross_entropy(x, target, weight, label_smoothing=smoothing)
    want = dlblas.cross_entropy(x, target, weight.float(), label_smoothing=smoothing)
    assert torch.equal(got, want) and got.dtype is torch.float32
    assert torch.equal(torch.autograd.grad(got, x)[0], torch.autograd.grad(want, x)[0])
    if dtype is torch.float16:
        host = [t.detach().cpu().numpy() for t in (x, target, weight)]
        by_numpy = dlblas.cross_entropy(*host, label_smoothing=smoothing)
        np.testing.assert_allclose(by_numpy, want.detach().cpu(), rtol=1e-6)
    with pytest.raises(errors.UnsupportedDtypeError, match="weight has dtype"):
        dlblas.cross_entropy(x.float(), target, weight)


def test_both_results_have_gradients(device: str) -> None:
    x = torch.randn(5, 33, device=device, requires_grad=True)
    target = torch.randint(0, 33, (5,), device=device)
    loss, lse = dlblas.cross_entropy_rows(x, target)
    weights = torch.randn(2, 5, 1, device=device)
    (got,) = torch.autograd.grad((loss * weights[0] + lse * weights[1]).sum(), x)
    wide = x.detach().double().requires_grad_()
    all_of = wide.logsumexp(-1, keepdim=True)
    right = (all_of - wide.gather(-1, target[:, None])) * weights[0] + all_of * weights[1]
    torch.testing.assert_close(got.double(), torch.autograd.grad(right.sum(), wide)[0],
                               rtol=1e-5, atol=1e-6)  # fmt: skip


def test_the_z_loss_comes_beside_the_loss(device: str) -> None:
    x, target = torch.randn(4, 20, device=device), torch.arange(4, device=device)
    loss, z = dlblas.cross_entropy(x, target, lse_square_scale=0.1, return_z_loss=True)
    plain = dlblas.cross_entropy(x, target)
    torch.testing.assert_close(loss, plain + z)
    torch.testing.assert_close(z, 0.1 * x.logsumexp(-1).square().mean())


def test_it_compiles_as_one_graph(device: str) -> None:
    x = torch.randn(6, 50, device=device, requires_grad=True)
    target = torch.randint(0, 50, (6,), device=device)
    compiled = torch.compile(dlblas.cross_entropy, backend="aot_eager", fullgraph=True)
    compiled(x, target).backward()
    eager = x.detach().clone().requires_grad_()
    dlblas.cross_entropy(eager, target).backward()
    torch.testing.assert_close(x.grad, eager.grad)


def test_numpy_has_it_too() -> None:
    rng = np.random.default_rng(1)
    x, target = rng.standard_normal((6, 40), np.float32), rng.integers(0, 40, 6)
    lse = np.log(np.exp(x.astype(np.float64)).sum(-1))
    want = lse - x[np.arange(6), target]
    np.testing.assert_allclose(dlblas.cross_entropy(x, target), want.mean(), rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"lse_square_scale": 0.1, "return_z_loss": True},
                                     {"reduction": "none", "lse_square_scale": 0.1}])  # fmt: skip
def test_a_target_of_another_package(options: dict[str, Any]) -> None:
    x, target, weight = torch.randn(4, 9), torch.tensor([1, 2, -100, 3]), torch.rand(9)
    want = dlblas.cross_entropy(x, target, weight, **options)
    for logits, labels, classes in (
        (x, target.numpy(), weight), (x.numpy(), target, weight.numpy()),
    ):  # fmt: skip
        got = dlblas.cross_entropy(logits, labels, classes, **options)
        for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, want)), strict=True):
            assert type(a).__module__ == type(logits).__module__
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), 1e-6)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"reduction": "max"}, "reduction is not offered; expected mean, sum, none, got 'max'"),
        ({"label_smoothing": 1.5}, "label_smoothing is out of range; expected 0 … 1, got 1.5"),
        ({"softcap": -1.0}, "softcap is out of range"),
        ({"ignore_index": None}, "ignore_index is of another type; expected an integer, got None"),
        ({"ignore_index": None, "reduction": "none"}, "ignore_index is of another type"),
        ({"ignore_index": 2**70}, "ignore_index is too large; expected a 64-bit integer"),
        ({"lse_square_scale": None}, "lse_square_scale is of another type; expected a number"),
        (
            {"lse_square_scale": "a", "return_z_loss": True},
            "lse_square_scale is of another type; expected a number, got str",
        ),
    ],
)
def test_bad_arguments(given: dict[str, Any], words: str) -> None:
    x, target = torch.randn(3, 5), torch.arange(3)
    with pytest.raises(errors.ArgumentError, match=words):
        dlblas.cross_entropy(x, target, **given)
    with pytest.raises(errors.ArgumentError, match=words):
        dlblas.cross_entropy(x.numpy(), target.numpy(), **given)
    if given.get("softcap") is None and "label_smoothing" not in given:
        given = {k: v for k, v in given.items() if k != "return_z_loss"}
        with pytest.raises(errors.ArgumentError, match=words):
            dlblas.fused_linear_cross_entropy(x, torch.randn(7, 5), target, **given)


def test_smoothed_weights_need_their_sum() -> None:
    x, weight = torch.randn(3, 5), torch.rand(5)
    with pytest.raises(errors.ArgumentError, match="expected both or neither"):
        dlblas.cross_entropy_rows(x, torch.arange(3), weight, label_smoothing=0.1)


def test_a_weight_of_classes_that_requires_grad_is_refused() -> None:
    """A tensor for which no gradient is computed is reported, never silently left without one."""
    x, weight = torch.randn(3, 8, requires_grad=True), torch.rand(8, requires_grad=True)
    target = torch.tensor([1, 2, 4])
    with pytest.raises(dlblas.errors.ArgumentError, match=r"cross_entropy: weight requires grad"):
        dlblas.cross_entropy(x, target, weight)
    with pytest.raises(dlblas.errors.ArgumentError, match=r"ce_weight requires grad"):
        dlblas.fused_linear_cross_entropy(x, torch.randn(8, 8), target, ce_weight=weight)
    dlblas.cross_entropy(x, target, weight.detach()).backward()
    with torch.no_grad():
        dlblas.cross_entropy(x, target, weight)
