"""Gradients combined with torch's other machinery: saved tensors, inference, checkpointing,
function transforms, torch.compile, export; what is refused, in words; how a family declares its
backward.

Every test runs on the CPU and, where there is one, on a GPU. Read next:
python/dlblas/torch/_autograd.py.
"""

from __future__ import annotations

import math
import runpy
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402, N812
from dlblas import harness  # noqa: E402
from dlblas.harness.call import Call  # noqa: E402
from dlblas.torch import _autograd, _register  # noqa: E402
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
    """add_rms_norm saves the sum that it returned, and neither of its two terms."""
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


def randn(*sizes: int) -> Any:
    return torch.randn(*sizes, requires_grad=True)


def penalty(call: Any, leaves: list[Any]) -> tuple[Any, ...]:
    """Gradients of the squared norm of a call's gradients."""
    results = call(*leaves)
    results = results if isinstance(results, tuple) else (results,)
    loss = sum(r.square().sum() for r in results if r.grad_fn is not None)
    firsts = torch.autograd.grad(loss, leaves, create_graph=True)
    assert all(g.requires_grad for g in firsts)
    return torch.autograd.grad(sum(g.square().sum() for g in firsts), leaves)


def rotated(q: Any, k: Any, v: Any) -> Any:
    tables = torch.ones(1, 5, 8), torch.ones(1, 5, 8)
    return dlblas.kernels.fused_rotary_and_fa.FusedRotaryAndFA.apply(q, k, v, *tables)


def packed(q: Any, k: Any, v: Any) -> Any:
    ends = torch.tensor([0, 2, 5], dtype=torch.int32)
    return dlblas.flash_attention_varlen(q, k, v, ends, ends)


HEADS = ((1, 5, 2, 8), (1, 5, 2, 8), (1, 5, 2, 8))
# Functions whose gradient is not differentiable, with the shapes of their leaves.
ONCE = {
    "cross_entropy": (lambda x: dlblas.cross_entropy(x, torch.arange(4)), (4, 5)),
    "flash_attention": (dlblas.flash_attention, *HEADS),
    "flash_attention's bias": (
        lambda q, k, v, b: dlblas.flash_attention(q, k, v, bias=b), *HEADS, (1, 2, 5, 5)
    ),
    "flash_attention_varlen": (packed, *(s[1:] for s in HEADS)),
    "FusedRotaryAndFA": (rotated, *HEADS),
    "fused_rotary_and_fa": (dlblas.fused_rotary_and_fa, *HEADS, (1, 5, 8), (1, 5, 8)),
    "gelu_tanh_and_mul": (dlblas.gelu_tanh_and_mul, (4, 6)),
    "layer_norm": (dlblas.layer_norm, (4, 6), (6,), (6,)),
    "norm_gated_linear": (
        lambda *given: dlblas.norm_gated_linear(*given), (4, 6), (6,), (5, 6), (5, 6)
    ),
    "partial_rotary_emb": (
        lambda q, k, kv: dlblas.partial_rotary_emb(q, k, kv, torch.ones(3, 4), torch.ones(3, 4)),
        (1, 3, 2, 8), (1, 3, 1, 4), (1, 3, 2, 8),
    ),
    "rms_norm_linear": (dlblas.rms_norm_linear, (4, 6), (6,), (5, 6)),
    "softmax": (dlblas.softmax, (4, 6)),
    "topk_gating": (lambda x: dlblas.topk_gating(x, 2)[0], (4, 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", ONCE)
def test_a_second_derivative_is_refused_of_every_function(name: str) -> None:
    call, *shapes = ONCE[name]
    with pytest.raises(dlblas.errors.UnsupportedError, match="gradient is not differentiable"):
        penalty(call, [randn(*s) for s in shapes])


def norm_and_rotation(x: Any, weight: Any, cos: Any, sin: Any) -> Any:
    n = F.rms_norm(x, x.shape[-1:], weight, 1e-6).unflatten(-1, (2, 4))
    (low, high), (c, s) = n.chunk(2, -1), (t[:, None, :2] for t in (cos, sin))
    return torch.cat((low * c - high * s, high * c + low * s), -1).flatten(-2)


def gated_norm(x: Any, weight: Any, bias: Any, z: Any) -> Any:
    return (F.rms_norm(x, x.shape[-1:], weight, 1e-6) + bias) * F.silu(z)


ROWS = {"row_scale": (5, 1), "column_scale": (6,), "residual": (5, 6)}
# Formulas whose gradients torch can differentiate again, and what they compute.
TWICE = {
    "linear": (
        lambda x, w, b: dlblas.linear(x, w, b, "gelu"), lambda x, w, b: F.gelu(F.linear(x, w, b)),
        (5, 8), (6, 8), (6,),
    ),
    "linear with scales": (
        lambda x, w, s, c, r: dlblas.linear(
            x, w, activation="silu", row_scale=s, column_scale=c, residual=r
        ),
        lambda x, w, s, c, r: F.silu(s * c * F.linear(x, w)) + r, (5, 8), (6, 8), *ROWS.values(),
    ),
    "matmul": (dlblas.matmul, torch.matmul, (5, 8), (8, 6)),
    "bmm": (dlblas.bmm, torch.bmm, (2, 5, 8), (2, 8, 6)),
    "bmm, turned": (
        lambda a, b: dlblas.bmm(a, b.mT, "silu"), lambda a, b: F.silu(a @ b.mT),
        (2, 5, 8), (2, 6, 8),
    ),
    "gated_mlp": (
        lambda x, g, u: dlblas.gated_mlp(x, g, u), lambda x, g, u: F.silu(x @ g.T) * (x @ u.T),
        (5, 8), (6, 8), (6, 8),
    ),
    "group_norm": (
        lambda x, w, b: dlblas.group_norm(x, 2, w, b), lambda x, w, b: F.group_norm(x, 2, w, b),
        (2, 4, 3), (4,), (4,),
    ),
    "layernorm_gated": (
        lambda x, w, b, z: dlblas.layernorm_gated(x, w, b, z, is_rms_norm=True), gated_norm,
        (3, 8), (8,), (8,), (3, 8),
    ),
    "fused_rmsnorm_rope": (
        dlblas.fused_rmsnorm_rope, norm_and_rotation, (3, 8), (8,), (3, 4), (3, 4)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TWICE)
def test_a_second_derivative_of_products_and_formulas(name: str) -> None:
    call, formula, *shapes = TWICE[name]
    torch.manual_seed(5)
    leaves = [randn(*s) for s in shapes]
    wide = [t.detach().double().requires_grad_() for t in leaves]
    pairs = zip(penalty(call, leaves), penalty(formula, wide), strict=True)
    for got, want in pairs:
        assert (got.double() - want).norm() <= 1e-3 * want.norm()


DECLARED, REGISTRY = _register._declarations(), harness.load_registry()
MAX_ELEMENTS = 1 << 13
# Gradients that jump, where a value is clamped or another expert is chosen.
JUMPS = ("grouped_topk", "swiglu_oai_and_mul", "topk_sigmoid", "topk_softmax")


def call_of(op: str) -> tuple[Any, dict[str, Any]]:
    """An operator on its largest small case, as a function of the inputs that have a gradient."""
    made = _autograd._formula(op, DECLARED[op])
    without = {name for _, name in getattr(made, "without", ())}  # products have a gradient of all

    def elements(row: Any) -> int:
        return math.prod(math.prod(np.atleast_1d(size).tolist()) for size in row["dims"].values())

    rows = [r for r in REGISTRY.rows if r["op"] == op and "test" in r["use"]]
    fitting = [r for r in rows if 0 < elements(r) <= MAX_ELEMENTS]
    row = max(fitting, key=elements) if fitting else min(rows, key=elements)
    dtype = "f32" if "f32" in row["dtypes"] else row["dtypes"][0]
    case = harness.Case(op, row["name"], row["dims"], dtype, "contiguous", "normal", row["args"])
    given = {
        name: torch.from_numpy(value) if isinstance(value, np.ndarray) else value
        for name, value in Call(REGISTRY, case, 5).before().items()
    }
    leaves = {
        name: value.requires_grad_()
        for name, value in given.items()
        if torch.is_tensor(value) and value.is_floating_point() and name not in without
    }
    return lambda **changed: getattr(dlblas, op)(**{**given, **changed}), leaves


def floats(results: Any) -> list[Any]:
    results = results if isinstance(results, tuple) else (results,)
    return [result for result in results if result.is_floating_point()]


@pytest.mark.parametrize("op", sorted(DECLARED))
def test_a_second_derivative_of_every_operator(op: str) -> None:
    """Refused, or what differences of first derivatives say, along a random direction."""
    torch.manual_seed(5)
    call, leaves = call_of(op)
    weights = [torch.randn_like(result) for result in floats(call(**leaves))]
    ways = {name: torch.randn_like(leaf) for name, leaf in leaves.items()}

    def gradients(step: float, keep: bool = False) -> list[Any]:
        moved = {n: leaf + step * ways[n] if step else leaf for n, leaf in leaves.items()}
        results = floats(call(**moved))
        loss = sum((r * w).sum() for r, w in zip(results, weights, strict=True))
        made = torch.autograd.grad(loss, [*leaves.values()], create_graph=keep, allow_unused=True)
        return [torch.zeros_like(t) if g is None else g
                for g, t in zip(made, leaves.values(), strict=True)]  # fmt: skip

    firsts = gradients(0, keep=True)
    along = sum((g * way).sum() for g, way in zip(firsts, ways.values(), strict=True))
    if DECLARED[op].get("second") != "formula":
        with pytest.raises(dlblas.errors.UnsupportedError, match="gradient is not differentiable"):
            torch.autograd.grad(along, [*leaves.values()], allow_unused=True)
        return
    seconds: Any = [None] * len(leaves)  # of a linear operator
    if along.requires_grad:
        seconds = torch.autograd.grad(along, [*leaves.values()], allow_unused=True)
    step = 2.0**-9
    pairs = zip(gradients(step), gradients(-step), strict=True)
    for (name, got), (more, less) in zip(zip(leaves, seconds, strict=True), pairs, strict=True):
        want = (more - less) / (2 * step)
        got = torch.zeros_like(want) if got is None else got
        if op in JUMPS:  # the elements between whose two points it jumps are left out
            error = (got - want).abs()
            near = error <= error.flatten().kthvalue(int(0.9 * error.numel())).values
            got, want = got[near], want[near]
        assert (got - want).norm() <= 1e-2 * want.norm() + 2e-3 * len(want.view(-1)) ** 0.5, name


def call_out(x: Any, w: Any) -> None:
    torch.ops.dlblas.rms_norm_out(x, w, torch.empty_like(x))


NO_BACKWARD = {
    "scale_rows": lambda x, w: dlblas.scale_rows(x, w[:, None]),
    "ops.scale_rows": lambda x, w: torch.ops.dlblas.scale_rows(x, w[:, None]),
    "in-place": lambda x, w: dlblas.rms_norm_(x.clone(), w),
    "ops in-place": lambda x, w: torch.ops.dlblas.rms_norm_(x.clone(), w),
    "out=": lambda x, w: dlblas.rms_norm(x, w, out=torch.empty_like(x)),
    "ops out": call_out,
    "private": lambda x, w: torch.ops.dlblas._rms_norm(x, w),
    "a backward": lambda x, w: torch.ops.dlblas.rms_norm_backward(x, x, w),
}


@pytest.mark.parametrize("name", NO_BACKWARD)
def test_no_backward_is_said(name, device) -> None:
    """Without the refusal, torch would silently give no gradient."""
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
    """vmap runs the operator row by row; derivatives of torch.func are refused."""
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


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("call", [
    lambda t: dlblas.softmax(t, 0),
    lambda t: dlblas.softmax(t, dim=0),
    lambda t: dlblas.l2_norm(t, dim=0),
    lambda t: dlblas.quantize(t, "token"),
    lambda t: dlblas.quantize(t, "group32", "i8"),
    lambda t: dlblas.silu_and_mul_quant(t),
    lambda t: dlblas.dequantize(*dlblas.quantize(t, "token"), "bf16"),
])  # fmt: skip
def test_vmap_of_other_forms(call, device) -> None:
    """vmap's tensors have torch.Tensor's own type, but no memory of their own: calls over another
    dimension, and dtypes by name, which torch does not read, go through torch's operators too."""
    x = torch.randn(3, 5, 64, device=device)
    made, expected = torch.vmap(call)(x), [call(row) for row in x]
    if isinstance(made, torch.Tensor):
        made, expected = (made,), [(e,) for e in expected]
    for got, rows in zip(made, zip(*expected, strict=True), strict=True):
        assert torch.equal(got.float(), torch.stack([row.float() for row in rows]))


# ---- torch.compile and torch.export -------------------------------------------------------------


def block(x: Any, w: Any, residual: Any) -> Any:
    y = torch.ops.dlblas.rms_norm(x * 2, w, 1e-5)
    y, h = torch.ops.dlblas.add_rms_norm(y, w, residual, 1e-5, 0.5, True)
    return y.sin() + h


# aot_eager has the same graphs without a minute of compilation; inductor runs once.
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
    scale = torch.randn(8, 1, device=device)
    compiled = torch.compile(
        lambda x: torch.ops.dlblas.scale_rows(x, scale), fullgraph=True, backend="aot_eager"
    )
    with pytest.raises(Exception, match="requires grad"):
        compiled(x)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), dlblas.scale_rows(x, scale))


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
    """It can be read without torch and without importing anything."""
    import dlblas.ops.add_rms_norm as words

    assert runpy.run_path(words.__file__)["AUTOGRAD"] == words.AUTOGRAD
    assert set(_autograd.FUNCTIONS) >= set(words.AUTOGRAD)
