"""Gradients among torch's other machinery: what is saved, inference, checkpointing, function
transforms, torch.compile, export; what is refused, in words; how a family declares its backward.

Every test runs on the CPU and, where there is one, on a GPU. Read next:
python/dlblas/torch/_autograd.py.
"""

from __future__ import annotations

import runpy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
from dlblas.torch import _autograd  # noqa: E402
from torch_gradients import (  # noqa: E402
    OPS,
    WAYS,
    Case,
    every_device,  # noqa: F401
    functions,
    grads_like,
    operators,
)


def test_saved_memory(device) -> None:
    """add_rms_norm keeps the sum that it returned, and neither of the two it was made of."""
    case = Case("add_rms_norm", device)
    y, residual = case.call(functions)
    kept = [t.data_ptr() for t in y.grad_fn.saved_tensors]
    assert kept == [residual.data_ptr(), case.weight.data_ptr()]


@WAYS
def test_a_saved_tensor_may_not_be_written(way, device) -> None:
    for write in (
        lambda h, w: h.add_(1),
        lambda h, w: dlblas.rms_norm_(h.detach(), w.detach()),
        lambda h, w: torch.ops.dlblas.rms_norm_(h.detach(), w.detach()),
    ):
        case = Case("add_rms_norm", device)
        y, residual = case.call(way)
        with torch.no_grad():
            write(residual, case.weight)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_inference_makes_no_graph(device) -> None:
    case = Case("add_rms_norm", device)
    for way in (functions, operators):
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                assert all(r.grad_fn is None for r in case.call(way))
    for leaf in case.leaves():
        leaf.requires_grad_(False)
    assert all(r.grad_fn is None for r in case.call(functions))


@WAYS
def test_checkpointing(way, device) -> None:
    from torch.utils.checkpoint import checkpoint

    case = Case("rms_norm", device)
    grads = grads_like(case.call(way))
    y = checkpoint(
        lambda x: way("rms_norm")(x, case.weight, 1e-5), *case.tensors, use_reentrant=False
    )
    again = torch.autograd.grad(y, case.leaves(), grads)
    for a, b in zip(case.gradients(way, grads), again, strict=True):
        assert torch.equal(a, b)


# ---- what is refused ----------------------------------------------------------------------------


@WAYS
@pytest.mark.parametrize("op", OPS)
def test_a_second_derivative_is_refused(way, op, device) -> None:
    case = Case(op, device)
    results = case.call(way)
    gradients = torch.autograd.grad(
        sum(r.square().sum() for r in results), case.leaves(), create_graph=True
    )
    assert all(g.requires_grad for g in gradients)  # not silently constant
    words = f"{op}: gradient is not differentiable; expected backward\\(\\) once"
    with pytest.raises(dlblas.errors.UnsupportedError, match=words):
        gradients[0].sum().backward()


def call_out(x: Any, w: Any) -> None:
    torch.ops.dlblas.rms_norm_out(x, w, torch.empty_like(x))


NO_BACKWARD = {
    "l2_norm": lambda x, w: dlblas.l2_norm(x),
    "ops.l2_norm": lambda x, w: torch.ops.dlblas.l2_norm(x),
    "in-place": lambda x, w: dlblas.rms_norm_(x.clone(), w),
    "ops in-place": lambda x, w: torch.ops.dlblas.rms_norm_(x.clone(), w),
    "out=": lambda x, w: dlblas.rms_norm(x, w, out=torch.empty_like(x)),
    "ops out": call_out,
    "private": lambda x, w: torch.ops.dlblas._rms_norm(x, w),
    "a backward": lambda x, w: torch.ops.dlblas.rms_norm_backward(x, x, w),
}


@pytest.mark.parametrize("name", NO_BACKWARD)
def test_no_backward_is_said(name, device) -> None:
    """torch would give no gradient, silently."""
    x = torch.randn(8, 8, device=device, requires_grad=True)
    w = torch.ones(8, device=device)
    error = RuntimeError if "ops" in name or name in ("private", "a backward") else dlblas.Error
    with pytest.raises(error, match=r"requires grad.*no_grad"):
        NO_BACKWARD[name](x, w)
    with torch.no_grad():
        NO_BACKWARD[name](x, w)
    NO_BACKWARD[name](x.detach(), w)


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's, of some versions
def test_function_transforms(device) -> None:
    """vmap of the operator runs row by row; derivatives of torch.func are refused."""
    case = Case("rms_norm", device)
    (x,), w = case.tensors, case.weight.detach()
    for transform, words in (
        (torch.func.grad, "x requires grad inside a transform of torch.func"),
        (torch.func.jacfwd, "x has a forward-mode tangent"),
    ):
        with pytest.raises(dlblas.errors.ArgumentError, match=words):
            transform(lambda t: dlblas.rms_norm(t, w).sum())(x.detach())
    with pytest.raises(RuntimeError, match="functorch transforms"):  # torch's own words
        torch.func.grad(lambda t: torch.ops.dlblas.rms_norm(t, w).sum())(x.detach())
    with torch.no_grad():
        y = torch.vmap(lambda t: torch.ops.dlblas.rms_norm(t, w))(x)
    assert torch.equal(y, dlblas.rms_norm(x.detach(), w))


# ---- torch.compile and torch.export -------------------------------------------------------------


def block(x: Any, w: Any, residual: Any) -> Any:
    y = torch.ops.dlblas.rms_norm(x * 2, w, 1e-5)
    y, h = torch.ops.dlblas.add_rms_norm(y, w, residual, 1e-5, 0.5, True)
    return y.sin() + h


# aot_eager has the same graphs without a compiler's minute; inductor runs once.
@pytest.mark.parametrize("backend, dynamic", [("aot_eager", False), ("aot_eager", True),
                                              ("inductor", True)])  # fmt: skip
def test_compiled(backend, dynamic, device) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(block, fullgraph=True, dynamic=dynamic, backend=backend)
    for rows in (4, 9, 16):
        x, residual = torch.randn(2, rows, 64, device=device).unbind()
        w = torch.randn(64, device=device)
        inputs = [t.clone().requires_grad_() for t in (x, w, residual)]
        y, expected = compiled(*inputs), block(*inputs)
        torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-5)
        grads = [torch.autograd.grad(r.square().sum(), inputs) for r in (y, expected)]
        torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-4)
        with torch.no_grad():
            y = compiled(x, w, residual)
        torch.testing.assert_close(y, expected.detach(), rtol=1e-5, atol=1e-5)


def test_a_dynamic_graph_is_compiled_once(device) -> None:
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(block, fullgraph=True, dynamic=True, backend=counter)
    w = torch.randn(64, device=device, requires_grad=True)
    for rows in (4, 9, 16, 100):
        x, residual = torch.randn(2, rows, 64, device=device).unbind()
        compiled(x, w, residual).sum().backward()
    assert counter.frame_count == 1


def test_no_backward_is_said_while_compiling(device) -> None:
    torch._dynamo.reset()
    x = torch.randn(8, 8, device=device, requires_grad=True)
    compiled = torch.compile(
        lambda x: torch.ops.dlblas.l2_norm(x), fullgraph=True, backend="aot_eager"
    )
    with pytest.raises(Exception, match="requires grad"):
        compiled(x)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), dlblas.l2_norm(x))


class Model(torch.nn.Module):
    def __init__(self, device: str) -> None:
        super().__init__()
        import dlblas.nn

        self.first = dlblas.nn.RMSNorm(64, device=device)
        self.second = dlblas.nn.RMSNorm(64, 1e-5, weight_offset=1.0, device=device)

    def forward(self, x: Any, residual: Any) -> Any:
        return self.second(self.first(x), residual)


def test_exported(device) -> None:
    model = Model(device)
    rows = torch.export.Dim("rows", min=2)
    example = tuple(torch.randn(2, 4, 64, device=device).unbind())
    shapes = {"x": {0: rows}, "residual": {0: rows}}
    for program in (
        torch.export.export(model, example, dynamic_shapes=shapes),
        torch.export.export(model, example, dynamic_shapes=shapes).run_decompositions(),
    ):
        called = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
        assert {"dlblas.rms_norm.default", "dlblas.add_rms_norm.default"} <= called
        inputs = tuple(torch.randn(2, 11, 64, device=device).unbind())
        for a, b in zip(program.module()(*inputs), model(*inputs), strict=True):
            assert torch.equal(a, b)


# ---- the declaration ----------------------------------------------------------------------------


def test_a_wrong_declaration_is_said() -> None:
    import dlblas.ops.add_rms_norm as words

    right = words.AUTOGRAD["add_rms_norm"]
    for part, wrong in (
        ("saves", {"x": "residual_out", "weight": "wait"}),
        ("takes", {"dy": "z"}),
        ("gives", {"x": "dz"}),
        ("saves", {"weight": "weight"}),
    ):
        words = (
            "add_rms_norm: AUTOGRAD is wrong; expected names of its own and of rms_norm_backward"
        )
        with pytest.raises(dlblas.errors.InternalError, match=words):
            _autograd._formula("add_rms_norm", {**right, part: wrong})


def test_a_declaration_is_data() -> None:
    """It is read without torch, and without importing anything."""
    import dlblas.ops.add_rms_norm as words

    assert runpy.run_path(words.__file__)["AUTOGRAD"] == words.AUTOGRAD
    assert set(_autograd.FUNCTIONS) >= set(words.AUTOGRAD)
