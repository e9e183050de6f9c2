"""dlblas.fused_linear_cross_entropy: losses and gradients of x, weight and bias against torch's own
layer and loss in f64, with the rows in one part and in several.

Every test runs on the CPU and, where there is one, on a GPU. Read next:
ops/loss/linear_cross_entropy.py.
"""

from __future__ import annotations

import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
from dlblas import errors  # noqa: E402
from dlblas.ops import loss_linear_cross_entropy as fused  # noqa: E402
from test_cross_entropy import WAYS, reference  # noqa: E402
from torch_gradients import DTYPES, every_device  # noqa: E402, F401

# Relative to the norm: f32 sums; rounding of logits, dlogits and results.
BARS = {torch.float32: 3e-6, torch.float16: 2e-3, torch.bfloat16: 1.2e-2}


def away(got: Any, want: Any) -> float:
    return float((got.double() - want).detach().norm() / want.norm().clamp(min=1e-30))


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=list(DTYPES))
@pytest.mark.parametrize("name", WAYS)
def test_loss_and_gradients(
    name: str, dtype: Any, reduction: str, parts: int, device: str, monkeypatch: Any
) -> None:
    if parts > 1:
        monkeypatch.setattr(fused, "_MIN_ROWS", 5)
        monkeypatch.setattr(fused, "_LOGITS", 1)
        monkeypatch.setattr(fused, "_PRODUCT", 4 * 48 * 50)
    torch.manual_seed(3)
    how = dict(WAYS[name])
    classes = 131
    if "weight" in how:
        how["weight"] = torch.rand(classes, device=device) + 0.5
    x = torch.randn(3, 5, 48, device=device).to(dtype).requires_grad_()
    weight = (torch.randn(classes, 48, device=device) / 4).to(dtype).requires_grad_()
    bias = torch.randn(classes, device=device).to(dtype).requires_grad_()
    target = torch.randint(0, classes, (3, 5), device=device)
    target[1, 2] = -100
    options = {"ce_weight" if n == "weight" else n: v for n, v in how.items()}
    assert len(fused.parts_of(15, classes, x.element_size())) == parts
    loss = dlblas.fused_linear_cross_entropy(
        x, weight, target, bias, reduction=reduction, **options
    )
    wide = [t.detach().double().requires_grad_() for t in (x, weight, bias)]
    if "weight" in how:
        how["weight"] = how["weight"].double()
    want = reference(wide[0] @ wide[1].t() + wide[2], target, how, reduction, -100)
    bar = BARS[dtype]
    assert loss.dtype is torch.float32 and loss.shape == want.shape
    assert away(loss, want) < bar
    share = torch.rand(loss.shape, device=device) + 0.5
    got = torch.autograd.grad(loss, (x, weight, bias), share, retain_graph=True)
    right = torch.autograd.grad(want, wide, share.double())
    for g, r in zip(got, right, strict=True):
        assert g.dtype is dtype and away(g, r) < bar
    assert not got[0][1, 2].any()
    again = torch.autograd.grad(loss, (x, weight, bias), share)
    for g, a in zip(got, again, strict=True):
        assert torch.equal(g, a)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_logits_of_an_ignored_row_may_overflow(reduction: str, device: str) -> None:
    """They affect neither the losses nor a gradient."""
    torch.manual_seed(3)
    x = torch.randn(3, 16, device=device).half()
    weight = torch.randn(20, 16, device=device).half().requires_grad_()
    target = torch.tensor([-100, 1, 2], device=device)
    results = []
    for first in (x[0].clone(), torch.full((16,), 6e4, device=device).half()):
        x[0] = first
        one = x.clone().requires_grad_()
        loss, z_loss = dlblas.fused_linear_cross_entropy(
            one, weight, target, lse_square_scale=1e-2, reduction=reduction, return_z_loss=True
        )
        grads = torch.autograd.grad(loss.sum(), (one, weight))
        results.append((loss, z_loss, *grads))
    for good, bad in zip(*results, strict=True):
        assert torch.equal(good, bad) and bad.isfinite().all()
    assert not (x @ weight.t()).isfinite().all()


@pytest.mark.parametrize("target", [[1, 20, -100], [1, -1, -100]])
def test_weights_and_a_class_that_is_not_there(target: list[int], device: str) -> None:
    x, weight = torch.randn(3, 16, device=device), torch.randn(20, 16, device=device)
    labels, classes = torch.tensor(target, device=device), torch.rand(20, device=device)
    assert dlblas.fused_linear_cross_entropy(x, weight, labels, ce_weight=classes).isnan()
    none = torch.full((3,), -100, device=device)
    empty = dlblas.fused_linear_cross_entropy(x, weight[:0], none, ce_weight=classes[:0])
    assert empty.isnan()


def test_class_weights_of_the_dtype_of_x(device: str) -> None:
    x = torch.randn(6, 16, device=device).bfloat16()
    weight = torch.randn(20, 16, device=device).bfloat16()
    target = torch.randint(0, 20, (6,), device=device)
    classes = torch.rand(20, device=device).bfloat16()
    for smoothing in (0.0, 0.1):
        got, want = (
            dlblas.fused_linear_cross_entropy(
                x, weight, target, ce_weight=c, label_smoothing=smoothing
            )
            for c in (classes, classes.float())
        )
        assert torch.equal(got, want)


def test_only_what_requires_grad_and_no_bias(device: str) -> None:
    x, weight = torch.randn(6, 16, device=device), torch.randn(20, 16, device=device)
    target = torch.randint(0, 20, (6,), device=device)
    plain = dlblas.fused_linear_cross_entropy(x, weight, target)
    assert not plain.requires_grad
    want = torch.nn.functional.cross_entropy(x @ weight.t(), target)
    torch.testing.assert_close(plain, want)
    weight.requires_grad_()
    dlblas.fused_linear_cross_entropy(x, weight, target).backward()
    (right,) = torch.autograd.grad(
        torch.nn.functional.cross_entropy(x @ weight.t(), target), weight
    )
    torch.testing.assert_close(weight.grad, right)


def test_z_loss_and_module(device: str) -> None:
    x = torch.randn(2, 4, 16, device=device, requires_grad=True)
    weight = torch.randn(20, 16, device=device)
    target = torch.randint(0, 20, (2, 4), device=device)
    head = dlblas.nn.FusedLinearCrossEntropy(lse_square_scale=0.1, return_z_loss=True)
    loss, z_loss = head(x, weight, target)
    z = 0.1 * (x @ weight.t()).logsumexp(-1).square().mean()
    torch.testing.assert_close(z_loss, z)
    assert loss.requires_grad and not z_loss.requires_grad
    plain = dlblas.fused_linear_cross_entropy(x, weight, target)
    torch.testing.assert_close(loss, plain + z)
    assert "lse_square_scale=0.1" in repr(head)


def test_parts_cover_all_rows() -> None:
    for rows in (0, 1, 127, 128, 129, 8192):
        parts = fused.parts_of(rows, 151936, 2)
        assert [i for first, last in parts for i in range(first, last)] == list(range(rows))
    assert len(fused.parts_of(8192, 151936, 2)) == 10


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("of", ["x", "weight", "bias"])
def test_a_second_derivative_is_refused(of: str, reduction: str, device: str) -> None:
    """A penalty on a gradient's size, for example: no part of it may be dropped silently."""
    leaves = {"x": (6, 16), "weight": (20, 16), "bias": (20,)}
    given = {n: torch.randn(s, device=device, requires_grad=True) for n, s in leaves.items()}
    target = torch.arange(6, device=device)
    x, weight, bias = given.values()
    loss = dlblas.fused_linear_cross_entropy(x, weight, target, bias, reduction=reduction).sum()
    (grad,) = torch.autograd.grad(loss, given[of], create_graph=True)
    assert grad.requires_grad and loss.isfinite()
    with pytest.raises(errors.UnsupportedError, match="entropy: gradient is not different"):
        torch.autograd.grad(loss + 10 * grad.square().sum(), weight)
    loss = dlblas.fused_linear_cross_entropy(x, weight, target, bias, reduction=reduction).sum()
    (again,) = torch.autograd.grad(loss, given[of])
    assert torch.equal(again, grad) and not again.requires_grad


def test_a_gradient_alone_keeps_no_input(device: str) -> None:
    """Its gradients are computed in the forward, so x is freed before backward."""
    x = torch.randn(6, 16, device=device, requires_grad=True)
    rows, weight = x * 2, torch.randn(20, 16, device=device)
    gone = weakref.ref(rows)
    target = torch.arange(6, device=device)
    loss = dlblas.fused_linear_cross_entropy(rows, weight, target)
    del rows
    assert gone() is None
    loss.backward()


def test_what_is_refused(device: str) -> None:
    x, weight = torch.randn(6, 16, device=device), torch.randn(20, 16, device=device)
    target = torch.zeros(6, dtype=torch.int64, device=device)
    with pytest.raises(errors.ArgumentError, match="reduction"):
        dlblas.fused_linear_cross_entropy(x, weight, target, reduction="max")
    with pytest.raises(errors.ShapeMismatchError, match="target"):
        dlblas.fused_linear_cross_entropy(x, weight, target[:5])
    with pytest.raises(errors.ArgumentTypeError, match="weight"):
        dlblas.fused_linear_cross_entropy(x, weight.cpu().numpy(), target)


def _grads(loss: Any, leaves: Any) -> tuple[Any, ...]:
    share = torch.arange(1, loss.numel() + 1, device=loss.device).reshape(loss.shape)
    return (loss, *torch.autograd.grad(loss, leaves, share.to(loss.dtype)))


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_one_graph_serves_any_number_of_rows(
    reduction: str, marked: bool, device: str, monkeypatch: Any
) -> None:
    """Of one part and of several: the number of parts is not the graph's. Loss and gradients have
    the bits of a plain call, and no node of the graph holds logits."""
    from torch._dynamo.testing import AotEagerAndRecordGraphs, CompileCounterWithBackend

    monkeypatch.setattr(fused, "_MIN_ROWS", 16)
    monkeypatch.setattr(fused, "_LOGITS", 1)
    recorded = AotEagerAndRecordGraphs()
    counter = CompileCounterWithBackend(recorded)

    def head(x: Any, weight: Any, target: Any, bias: Any) -> Any:
        return dlblas.fused_linear_cross_entropy(
            x, weight, target, bias, lse_square_scale=1e-2, reduction=reduction
        )

    torch.compiler.reset()
    compiled = torch.compile(head, fullgraph=True, backend=counter, dynamic=None)
    weight = torch.randn(33, 24, device=device, requires_grad=True)
    bias = torch.randn(33, device=device, requires_grad=True)
    for rows in (9, 15, 16, 17, 48, 100, 257):
        x = torch.randn(rows, 24, device=device, requires_grad=True)
        target = torch.randint(0, 33, (rows,), device=device)
        target[rows // 2] = -100
        if marked:
            for tensor in (x, target):
                torch._dynamo.mark_dynamic(tensor, 0)
        assert len(fused.parts_of(rows, 33, 4)) == -(-rows // 16)
        want, got = (
            _grads(call(x, weight, target, bias), (x, weight, bias)) for call in (head, compiled)
        )
        assert all(torch.equal(a, b) for a, b in zip(want, got, strict=True))
    assert counter.frame_count == (1 if marked else 2)  # unmarked: the first size, then any
    graphs = (*recorded.fw_graphs, *recorded.bw_graphs)
    nodes = [node for graph in graphs for node in graph.graph.nodes if node.op == "call_function"]
    ours = {str(n.target) for n in nodes if str(n.target).startswith("dlblas.")}
    passes = ["", "_backward"] if reduction == "none" else [""]
    assert ours == {f"dlblas._linear_cross_entropy{which}.default" for which in passes}


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_its_torch_operators(reduction: str, device: str, monkeypatch: Any) -> None:
    """torch's own checks of a schema, a fake and what a kernel returns."""
    monkeypatch.setattr(fused, "_MIN_ROWS", 5)
    monkeypatch.setattr(fused, "_LOGITS", 1)
    dlblas.fused_linear_cross_entropy(
        torch.ones(2, 4), torch.ones(3, 4), torch.zeros(2, dtype=torch.int64)
    )
    x, weight = (torch.randn(n, 24, device=device).bfloat16() for n in (12, 33))
    target = torch.randint(0, 33, (12,), device=device)
    bias, each = (torch.rand(33, device=device) for _ in range(2))
    passes = torch.ops.dlblas._linear_cross_entropy, torch.ops.dlblas._linear_cross_entropy_backward
    for optional in ((bias.bfloat16(), each), (None, None)):
        given = (x, weight, target, *optional, -100, 0.1, 0.2, reduction, 3.0)
        wanted = [True, True, optional[0] is not None]
        for now in (wanted, [False] * 3):
            if not (any(now) and reduction == "none"):
                torch.library.opcheck(passes[0].default, (*given, now))
        if reduction == "none":
            torch.library.opcheck(passes[1].default, (torch.rand(12), *given, wanted))


def test_no_rows_and_no_part(device: str) -> None:
    x = torch.empty(0, 24, device=device, requires_grad=True)
    weight = torch.randn(33, 24, device=device, requires_grad=True)
    bias = torch.randn(33, device=device, requires_grad=True)
    none = torch.empty(0, dtype=torch.int64, device=device)
    loss = dlblas.fused_linear_cross_entropy(x, weight, none, bias, reduction="sum")
    grads = torch.autograd.grad(loss, (x, weight, bias))
    assert loss == 0 and all(not grad.any() for grad in grads)
    assert [grad.shape for grad in grads] == [x.shape, weight.shape, bias.shape]


def test_a_traced_call_is_refused_as_a_plain_one(device: str) -> None:
    """The fakes of its operators see all rows at once."""
    x, target = torch.randn(6, 16, device=device), torch.zeros(6, dtype=torch.int64, device=device)
    compiled = torch.compile(dlblas.fused_linear_cross_entropy, fullgraph=True, backend="aot_eager")
    weight = torch.randn(20, 16, device=device)
    for wrong in ((x, weight.half(), target), (x, weight, target, torch.ones(19, device=device))):
        for call in (dlblas.fused_linear_cross_entropy, compiled):
            with pytest.raises(Exception, match=r"(weight|\bb|bias)\b.*; expected"):
                call(*wrong)


@pytest.mark.gpu
def test_no_wait_for_the_device() -> None:
    x = torch.randn(300, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    weight = torch.randn(500, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    target = torch.randint(0, 500, (300,), device="cuda")
    dlblas.fused_linear_cross_entropy(x, weight, target).backward()  # compiled
    torch.cuda.set_sync_debug_mode("error")
    try:
        dlblas.fused_linear_cross_entropy(x, weight, target, lse_square_scale=0.1).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_numpy(reduction: str, monkeypatch: Any) -> None:
    from dlblas.ops import loss_api

    x, weight, bias = torch.randn(2, 5, 8), torch.randn(7, 8), torch.randn(7)
    target, each = torch.randint(0, 7, (2, 5)), torch.rand(7)
    target[0, 1] = -100
    more = {
        "lse_square_scale": 0.1, "label_smoothing": 0.2, "softcap": 5.0, "return_z_loss": True,
        "reduction": reduction,
    }  # fmt: skip
    want = dlblas.fused_linear_cross_entropy(x, weight, target, bias, each, **more)
    for part in (1, 3, 128):
        monkeypatch.setattr(loss_api, "_LEAST_ROWS", part)
        monkeypatch.setattr(loss_api, "_PART", 1)
        got = dlblas.fused_linear_cross_entropy(
            *(t.numpy() for t in (x, weight, target, bias, each)), **more
        )
        for mine, its in zip(got, want, strict=True):
            torch.testing.assert_close(
                torch.as_tensor(mine), its, rtol=1e-5, atol=1e-5, check_dtype=False
            )
    plain = dlblas.fused_linear_cross_entropy(*(t.numpy() for t in (x, weight, target)))
    torch.testing.assert_close(
        float(plain), float(dlblas.fused_linear_cross_entropy(x, weight, target)), rtol=1e-5, atol=0
    )
    assert plain.dtype == "float32"
    nothing = dlblas.fused_linear_cross_entropy(
        x[:0].numpy(), weight.numpy(), target[:0].numpy(), reduction="sum"
    )
    assert nothing == 0
    with pytest.raises(errors.ArgumentTypeError, match="weight is no NumPy array"):
        dlblas.fused_linear_cross_entropy(x.numpy(), weight, target.numpy())
