"""Gradients on torch tensors: dlblas.x() and torch.ops.dlblas.x against the formula differentiated
by torch in f64, under a bound; finite differences; the same bits twice; what is refused, in words.

Every test runs on the CPU and, where there is one, on a GPU. Read next: ops/norm/norm.py
(AUTOGRAD), python/dlblas/torch/_autograd.py.
"""

from __future__ import annotations

import itertools
import runpy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import dlblas  # noqa: E402
import dlblas.torch  # noqa: E402
from dlblas.torch import _autograd  # noqa: E402

U = 2.0**-24
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    torch.manual_seed(7)
    return str(request.param)


# The two ways in. Keyword-only arguments are positional for torch.
def functions(op: str) -> Callable[..., Any]:
    call = getattr(dlblas, op)
    tensors = 3 if op == "add_rms_norm" else 2

    def function(*args: Any) -> Any:
        eps, *rest = args[tensors:] or (1e-6,)
        names = ("weight_offset", "cast_before_weight")
        return call(*args[:tensors], eps, **dict(zip(names, rest, strict=False)))

    return function


def operators(op: str) -> Callable[..., Any]:
    return getattr(torch.ops.dlblas, op)


WAYS = pytest.mark.parametrize("way", [functions, operators], ids=["function", "operator"])


# ---- the formula, in f64 ------------------------------------------------------------------------


def rounded(t: Any, dtype: Any) -> Any:
    """Rounds; its derivative is 1, as the contract says."""
    return t + (t.detach().to(dtype).double() - t.detach())


class Case:
    """One call on leaves, its gradients, and the same in f64 with what each may be off by."""

    def __init__(
        self, op: str, device: str, dtype: str = "f32", weight: str | None = None,
        shape: tuple[int, ...] = (6, 72), scalars: tuple[Any, ...] = (1e-5, 0.0, False),
        view: Callable[[Any], Any] = lambda t: t,
    ) -> None:  # fmt: skip
        self.op, self.scalars, self.view = op, scalars, view
        self.dtype, self.weight_dtype = DTYPES[dtype], DTYPES[weight or dtype]
        count = 2 if op == "add_rms_norm" else 1
        self.tensors = [
            torch.randn(shape, device=device).to(self.dtype).requires_grad_() for _ in range(count)
        ]
        width = view(self.tensors[0]).shape[-1]
        self.weight = torch.randn(width, device=device).to(self.weight_dtype).requires_grad_()

    def leaves(self) -> list[Any]:
        return [*self.tensors, self.weight]

    def call(self, way: Callable[[str], Callable[..., Any]]) -> tuple[Any, ...]:
        x, *residual = (self.view(t) for t in self.tensors)
        results = way(self.op)(x, self.weight, *residual, *self.scalars)
        return results if isinstance(results, tuple) else (results,)

    def gradients(self, way: Any, grads: list[Any]) -> tuple[Any, ...]:
        return torch.autograd.grad(self.call(way), self.leaves(), grads)

    def results64(self, leaves: list[Any]) -> tuple[Any, ...]:
        *tensors, weight = leaves
        x, *residual = (self.view(t) for t in tensors)
        eps, offset, cast = self.scalars
        h = x
        if residual:  # the sum is made in f32, and then rounded
            total = (x.detach().float() + residual[0].detach().float()).to(self.dtype).double()
            h = x + residual[0]
            h = h + (total - h.detach())
        n = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + eps)
        y = (rounded(n, self.dtype) if cast else n) * (weight + offset)
        return (y, h) if residual else (y,)

    def expect(self, grads: list[Any]) -> tuple[list[Any], list[Any]]:
        """Gradients of the leaves in f64, and the error allowed for each element."""
        leaves = [t.detach().double().requires_grad_() for t in self.leaves()]
        results = self.results64(leaves)
        values = torch.autograd.grad(results, leaves, [g.double() for g in grads])
        # Magnitudes of what is summed: the bound of rms_norm_backward's oracle, in torch.
        eps, offset, cast = self.scalars
        x, *residual = (self.view(t.detach()) for t in leaves[:-1])
        h = self.results64([t.detach() for t in leaves])[-1] if residual else x
        r = torch.rsqrt(h.square().mean(-1, keepdim=True) + eps)
        n, dy = (h * r).abs(), grads[0].double().abs()
        g = dy * (leaves[-1].detach().abs() + abs(offset))
        dx = r * (g + n * (g * n).mean(-1, keepdim=True))
        if residual:
            dx = dx + grads[1].double().abs()
        # Back through the view, where several elements of x may come from one of the leaf.
        leaf = leaves[0].detach().requires_grad_()
        (dx,) = torch.autograd.grad(self.view(leaf), leaf, dx)
        width, rows = h.shape[-1], h.numel() // max(1, h.shape[-1])
        terms = dx.numel() and self.view(self.tensors[0]).numel() / dx.numel()
        chain = width / 8 + 64
        unit, unit_w = (torch.finfo(t).eps / 2 for t in (self.dtype, self.weight_dtype))
        # A leaf that a view repeats adds gradients that were rounded to its dtype, in its dtype.
        bound_x = dx * (chain * U + unit * (1 if terms <= 1 else 4 * terms)) + 1e-7
        dw = (dy * n).reshape(-1, width).sum(0)
        # A normalised element next to a tie may be rounded the other way.
        flips = 2 * unit if cast else 0.0
        bound_w = dw * ((chain + rows) * U + flips + unit_w) + 1e-7
        return list(values), [bound_x] * len(self.tensors) + [bound_w]


def assert_close(case: Case, gradients: Any, grads: list[Any]) -> None:
    for leaf, got, value, bound in zip(case.leaves(), gradients, *case.expect(grads), strict=True):
        assert got.dtype is leaf.dtype and got.shape == leaf.shape and got.device == leaf.device
        excess = (got.double() - value).abs() / bound
        assert excess.numel() == 0 or excess.max() <= 1, excess.max()


def grads_like(results: tuple[Any, ...]) -> list[Any]:
    return [torch.randn(r.shape, device=r.device).to(r.dtype) for r in results]


OPS = ["rms_norm", "add_rms_norm"]


@WAYS
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dtype, weight", [*itertools.product(DTYPES, ["f32"]), ("bf16", "bf16")])
@pytest.mark.parametrize("scalars", [(1e-5, 0.0, False), (1e-3, 1.0, False), (1e-6, 0.5, True)])
def test_gradients(way, op, dtype, weight, scalars, device) -> None:
    for shape in [(1, 64), (37, 129), (2, 3, 1000), (3, 4097), (5,)]:
        case = Case(op, device, dtype, weight, shape, scalars)
        grads = grads_like(case.call(way))
        assert_close(case, case.gradients(way, grads), grads)


def test_the_bound_sees_a_wrong_gradient(device) -> None:
    """Another eps, a forgotten residual gradient and a row too few are outside of it."""
    case = Case("add_rms_norm", device, "bf16")
    grads = grads_like(case.call(functions))
    right = case.gradients(functions, grads)
    for wrong in (
        case.gradients(functions, [grads[0], torch.zeros_like(grads[1])]),
        case.gradients(functions, [grads[0] * 1.02, grads[1]]),
        (*right[:2], right[2] - grads[0][0]),
    ):
        with pytest.raises(AssertionError):
            assert_close(case, wrong, grads)


VIEWS = {
    "row_strided": ((6, 160), lambda t: t[:, 3:75]),
    "other_rows": ((12, 72), lambda t: t[::2]),
    "transposed": ((72, 6), lambda t: t.t()),
    "broadcast": ((1, 72), lambda t: t.expand(6, 72)),
    "permuted": ((3, 4, 72), lambda t: t.transpose(0, 1)),
}


@WAYS
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("layout", VIEWS)
def test_views_of_leaves(way, op, layout, device) -> None:
    shape, view = VIEWS[layout]
    for dtype in ("f32", "bf16"):
        case = Case(op, device, dtype, "f32", shape, view=view)
        try:
            grads = grads_like(case.call(way))
        except (dlblas.errors.UnsupportedError, RuntimeError) as refusal:
            if device == "cpu" or "contiguous" not in str(refusal):
                raise
            pytest.skip(f"refused in words: {refusal}".splitlines()[0])
        assert_close(case, case.gradients(way, grads), grads)


GRADS = {
    "expanded": lambda r: torch.ones((), device=r.device, dtype=r.dtype).expand(r.shape),
    "rows_expanded": lambda r: torch.randn(r.shape[-1], device=r.device).to(r.dtype).expand_as(r),
    "transposed": lambda r: torch.randn(r.shape[::-1], device=r.device).to(r.dtype).t(),
    "row_strided": lambda r: torch.randn(r.shape[0], 2 * r.shape[1], device=r.device).to(r.dtype)[
        :, 1 : 1 + r.shape[1]
    ],
}


@WAYS
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("layout", GRADS)
def test_gradients_that_arrive_in_other_layouts(way, op, layout, device) -> None:
    for dtype in ("f32", "f16"):
        case = Case(op, device, dtype)
        grads = [GRADS[layout](r) for r in case.call(way)]
        assert_close(case, case.gradients(way, grads), grads)


def test_rows_at_one_stride_are_not_copied(device) -> None:
    """The halves of a concatenation, and slices of it, arrive as views; others as copies."""
    plain = torch.randn(4, 6, 64, device=device)
    views = [plain, plain[:, :, :32], plain.flatten(0, 1)[::2], plain[0, 0]]
    assert all(_autograd._has_plain_rows(v) for v in views)
    views = [plain[:, :4], plain.transpose(0, 1), plain[..., ::2], plain[:1].expand(4, 6, 64),
             plain.new_ones(()).expand(4, 6, 64), plain[0, 0, ::2]]  # fmt: skip
    assert not any(_autograd._has_plain_rows(v) for v in views)


@WAYS
@pytest.mark.parametrize("op", OPS)
def test_sum_and_backward(way, op, device) -> None:
    """The usual end of a graph: .sum() sends an expanded one, and .grad is filled."""
    case = Case(op, device)
    results = case.call(way)
    sum(r.sum() for r in results).backward()
    grads = [torch.ones_like(r) for r in results]
    assert_close(case, [leaf.grad for leaf in case.leaves()], grads)
    addresses = {leaf.grad.data_ptr() for leaf in case.leaves()}
    assert len(addresses) == len(case.leaves())  # x's and residual's are equal, and not one tensor


@WAYS
@pytest.mark.parametrize("op", OPS)
def test_no_rows(way, op, device) -> None:
    case = Case(op, device, shape=(0, 64))
    gradients = case.gradients(way, grads_like(case.call(way)))
    assert [tuple(g.shape) for g in gradients] == [tuple(t.shape) for t in case.leaves()]
    assert not gradients[-1].any()


@WAYS
@pytest.mark.parametrize("op", OPS)
def test_the_same_bits_twice(way, op, device) -> None:
    case = Case(op, device, "bf16", "f32", (513, 1024))
    grads = grads_like(case.call(way))
    first = case.gradients(way, grads)
    for _ in range(3):
        again = case.gradients(way, grads)
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("op", OPS)
def test_both_ways_give_the_same_bits(op, device) -> None:
    case = Case(op, device, "f16", "f32", (33, 200), (1e-4, 0.25, True))
    grads = grads_like(case.call(functions))
    for a, b in zip(
        case.gradients(functions, grads), case.gradients(operators, grads), strict=True
    ):
        assert torch.equal(a, b)


@WAYS
@pytest.mark.parametrize("op", OPS)
def test_a_result_that_nobody_used(way, op, device) -> None:
    """Each of the results alone, and each input alone requiring grad."""
    case = Case(op, device)
    for used in range(len(case.call(way))):
        results = case.call(way)
        grads = [torch.zeros_like(r) for r in results]
        grads[used] = torch.randn_like(results[used])
        alone = torch.autograd.grad(
            results[used], case.leaves(), grads[used], allow_unused=True, materialize_grads=True
        )
        assert_close(case, alone, grads)
    for one in case.leaves():
        for leaf in case.leaves():
            leaf.requires_grad_(leaf is one)
        results = case.call(way)
        assert all(r.requires_grad for r in results)
        sum(r.sum() for r in results).backward()
        assert [leaf.grad is not None for leaf in case.leaves()] == [
            leaf is one for leaf in case.leaves()
        ]
        one.grad = None


@WAYS
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("scalars", [(1e-5, 0.0, False), (1e-2, 1.0, False)])
def test_finite_differences(way, op, scalars, device) -> None:
    """torch's own gradcheck. It wants f64, which no operator serves: the tensors are f64, the call
    is f32, and steps and tolerances are f32's. Undefined gradients and a second run are checked
    too."""

    def call(*tensors: Any) -> Any:
        results = way(op)(*(t.float() for t in tensors), *scalars)
        return tuple(r.double() for r in (results if isinstance(results, tuple) else (results,)))

    x, residual = torch.randn(2, 3, 8, device=device, dtype=torch.float64).unbind()
    weight = torch.randn(8, device=device, dtype=torch.float64)
    inputs = [x, weight] + ([residual] if op == "add_rms_norm" else [])
    torch.autograd.gradcheck(
        call, [t.clone().requires_grad_() for t in inputs],
        eps=2e-3, atol=1e-3, rtol=1e-3, nondet_tol=0.0, check_undefined_grad=True,
    )  # fmt: skip


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
    "matmul": lambda x, w: dlblas.matmul(x, x),
    "ops.matmul": lambda x, w: torch.ops.dlblas.matmul(x, x),
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
        lambda x: torch.ops.dlblas.matmul(x, x), fullgraph=True, backend="aot_eager"
    )
    with pytest.raises(Exception, match="requires grad"):
        compiled(x)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), x @ x, rtol=1e-3, atol=1e-3)


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
    import dlblas.ops.norm as family

    right = family.AUTOGRAD["add_rms_norm"]
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
    import dlblas.ops.norm as family

    assert runpy.run_path(family.__file__)["AUTOGRAD"] == family.AUTOGRAD
    assert set(_autograd.FUNCTIONS) >= set(family.AUTOGRAD)
