"""dlblas.vllm: its implementations compute what vLLM defines, run only where a priority list names
them, and refuse in words what they cannot serve.

These tests run on a stand-in for vLLM's interface (vllm_stand_in.py), and on the real ``vllm.ir``
if vLLM can be imported. Its Python files suffice: unpack them from the wheel of vLLM 0.33 (``unzip
…whl 'vllm/*.py'``), put that folder on PYTHONPATH beside the package ``regex``, and run this file.
No GPU and no vLLM kernel takes part. Read next: python/dlblas/vllm.py.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import dlblas
import pytest

torch = pytest.importorskip("torch")
import vllm_stand_in  # noqa: E402
from dlblas import vllm as plugin  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS = ["dlblas", "native"]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
# The tolerances that vLLM allows an implementation of its norms.
ALLOWED = {
    torch.float32: {"atol": 1e-5, "rtol": 1.3e-6},
    torch.float16: {"atol": 1e-2, "rtol": 2e-3},
    torch.bfloat16: {"atol": 1e-3, "rtol": 1.6e-2},
}


@pytest.fixture(params=["in small", "real"])
def ops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """vLLM's operators, after ``register()``."""
    if request.param == "in small":
        stand_in(monkeypatch)
        made = sys.modules["vllm.ir"].ops
    elif importlib.util.find_spec("vllm") is None:
        pytest.skip("vllm is not installed")
    else:
        made = importlib.import_module("vllm.ir").ops
    assert plugin.register() == ("rms_norm", "fused_add_rms_norm")
    with made.rms_norm.set_priority(["native"]), made.fused_add_rms_norm.set_priority(["native"]):
        yield made


def stand_in(monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
    for name, module in vllm_stand_in.modules(**given).items():
        monkeypatch.setitem(sys.modules, name, module)


def calls(run: Any) -> tuple[Any, int]:
    before = dlblas.counters()["calls"]
    made = run()
    return made, dlblas.counters()["calls"] - before


def inputs(dtype: Any, weight: str, rows: tuple[int, ...] = (1000,), width: int = 256) -> Any:
    torch.manual_seed(5)
    x, residual = (3 * torch.randn(*rows, width).to(dtype) for _ in range(2))
    given = {"none": None, "like x": torch.randn(width).to(dtype), "f32": torch.randn(width)}
    return x, residual, given[weight]


# ---- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", ["like x", "f32", "none"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm_rounds_as_vllm(ops: Any, dtype: Any, weight: str) -> None:
    x, _, w = inputs(dtype, weight)
    expected, none = calls(lambda: ops.rms_norm(x, w, 1e-5))
    with ops.rms_norm.set_priority(OURS):
        y, ours = calls(lambda: ops.rms_norm(x, w, 1e-5))
    assert (none, ours) == (0, 1) and y.dtype == dtype
    torch.testing.assert_close(y, expected, **ALLOWED[dtype])
    if dtype != torch.float32:  # a tie falls elsewhere now and then; another rounding: a tenth
        assert (y != expected).float().mean() < 1e-3


@pytest.mark.parametrize("weight", ["like x", "f32", "none"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_fused_add_rms_norm(ops: Any, dtype: Any, weight: str) -> None:
    x, residual, w = inputs(dtype, weight)
    op, kept = ops.fused_add_rms_norm, (x.clone(), residual.clone())
    expected, total = op(x, residual, w, 1e-5)
    with op.set_priority(OURS):
        (y, written), ours = calls(lambda: op(x, residual, w, 1e-5))
        assert ours == 1 and torch.equal(x, kept[0]) and torch.equal(residual, kept[1])
        over = op.maybe_inplace(x, residual, w, 1e-5)
    assert torch.equal(written, total)  # the sum is exact to the bit
    torch.testing.assert_close(y, expected, **ALLOWED[dtype])
    of_rounded = ops.rms_norm(total, w, 1e-5)
    if dtype == torch.float32:
        torch.testing.assert_close(y, of_rounded, **ALLOWED[dtype])
    else:  # what the docs say it is the norm of
        assert (y != of_rounded).float().mean() < 1e-3
    # With permission, it overwrites its inputs.
    assert torch.equal(over[0], y) and torch.equal(over[1], total)
    assert torch.equal(x, y) and torch.equal(residual, total)
    assert over[0].data_ptr() == x.data_ptr() and over[1].data_ptr() == residual.data_ptr()


@pytest.mark.parametrize("rows", [(), (0,), (3, 5)])
def test_any_leading_dimensions(ops: Any, rows: tuple[int, ...]) -> None:
    x, residual, w = inputs(torch.bfloat16, "like x", rows)
    expected = ops.rms_norm(x, w, 1e-5), ops.fused_add_rms_norm(x, residual, w, 1e-5)
    with ops.rms_norm.set_priority(OURS), ops.fused_add_rms_norm.set_priority(OURS):
        got = ops.rms_norm(x, w, 1e-5), ops.fused_add_rms_norm(x, residual, w, 1e-5)
    torch.testing.assert_close(got, expected, **ALLOWED[torch.bfloat16])
    heads = inputs(torch.bfloat16, "none", (7, 12))[0][:, :3]  # q of a product that holds k and v
    with ops.rms_norm.set_priority(OURS):
        y, ours = calls(lambda: ops.rms_norm(heads, w, 1e-5))
    assert ours == 1
    torch.testing.assert_close(y, ops.rms_norm(heads, w, 1e-5), **ALLOWED[torch.bfloat16])


# ---- which calls ---------------------------------------------------------------------------------


def test_nothing_is_replaced_unasked(ops: Any) -> None:
    x, residual, w = inputs(torch.bfloat16, "like x")
    for op in (ops.rms_norm, ops.fused_add_rms_norm):
        assert list(op.impls).count("dlblas") == 1 and op.get_priority() == ["native"]
    run = (lambda: ops.rms_norm(x, w, 1e-5), lambda: ops.fused_add_rms_norm(x, residual, w, 1e-5))
    assert [calls(one)[1] for one in run] == [0, 0]
    offered = [op.impls["dlblas"] for op in (ops.rms_norm, ops.fused_add_rms_norm)]
    assert plugin.register() == ("rms_norm", "fused_add_rms_norm")  # again: the same ones
    assert offered == [op.impls["dlblas"] for op in (ops.rms_norm, ops.fused_add_rms_norm)]


def test_the_next_of_the_list_takes_other_calls(ops: Any) -> None:
    x, residual, w = inputs(torch.bfloat16, "like x", (4,))
    one = x.clone().requires_grad_()
    norms = {
        "variance_size": (x, w, 1e-5, 128),
        "f64": (x.double(), w.double(), 1e-5),
        "a narrower weight": (x.float(), w, 1e-5),
        "another dtype's weight": (x, w.half(), 1e-5),
        "a weight of each row": (x, w.expand(4, -1), 1e-5),
        "a weight with gaps": (x, torch.randn(512).bfloat16()[::2], 1e-5),
        "columns": (x.T, w[:4], 1e-5),
        "no row": (x[0, 0], None, 1e-5),
        "another device": (x.to("meta"), w.to("meta"), 1e-5),
    }
    sums = {
        "a wider residual": (x, residual.float(), w, 1e-5),
        "one residual for all": (x, residual[0], w, 1e-5),
        "columns of a residual": (x, residual.T.contiguous().T, w, 1e-5),
        "itself": (x, x, w, 1e-5),
        "a gradient": (one, residual, w, 1e-5),
        "variance_size": (x, residual, w, 1e-5, 128),
    }
    for op, given in ((ops.rms_norm, norms), (ops.fused_add_rms_norm, sums)):
        with op.set_priority(OURS):
            chosen = {what: op.dispatch(*args).provider for what, args in given.items()}
        assert chosen == dict.fromkeys(given, "native")
    with ops.fused_add_rms_norm.set_priority(OURS), torch.no_grad():
        assert ops.fused_add_rms_norm.dispatch(one, residual, w, 1e-5).provider == "dlblas"


# ---- graphs --------------------------------------------------------------------------------------


def test_it_is_traced_as_operators(ops: Any) -> None:
    """As vLLM lowers it: with fake tensors of symbolic sizes, outside torch.compile."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def both(x: Any, residual: Any, w: Any) -> Any:
        y, total = ops.fused_add_rms_norm.impls["dlblas"].func_impl_fn(x, residual, w, 1e-5)
        return ops.rms_norm.impls["dlblas"].func_impl_fn(y, w, 1e-5), total

    given = inputs(torch.bfloat16, "like x", (6,))
    graph, traced = calls(lambda: make_fx(both, tracing_mode="symbolic")(*given))
    assert traced == 0
    named = {str(node.target) for node in graph.graph.nodes if node.op == "call_function"}
    assert named == {
        "aten.clone.default", "dlblas.add_rms_norm_.default", "dlblas.rms_norm.default",
    }  # fmt: skip
    other = inputs(torch.bfloat16, "like x", (11,))
    made, ours = calls(lambda: graph(*other))
    assert ours == 2 and all(map(torch.equal, made, both(*other)))


def test_torch_compile_takes_it_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)
    plugin.register()
    ops = sys.modules["vllm.ir"].ops

    def layer(x: Any, residual: Any, w: Any) -> Any:
        y, total = ops.fused_add_rms_norm.impls["dlblas"].impl_fn(x, residual, w, 1e-5)
        return ops.rms_norm.impls["dlblas"].impl_fn(y, w, 1e-5), total

    x, residual, w = inputs(torch.bfloat16, "like x", (6,))
    expected = layer(x.clone(), residual.clone(), w)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    assert all(map(torch.equal, compiled(x.clone(), residual.clone(), w), expected))


# ---- refusals ------------------------------------------------------------------------------------


def other_parameters(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return vllm_stand_in.rms_norm(x, weight, eps)


def other_types(
    x: torch.Tensor, weight: torch.Tensor, epsilon: float, variance_size: int | None = None
) -> torch.Tensor:
    return vllm_stand_in.rms_norm(x, weight, epsilon)


def other_values(
    x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, variance_size: int | None = None
) -> torch.Tensor:
    """Rounds before an f32 weight, too."""
    y = vllm_stand_in.rms_norm(x, None, epsilon)
    return y if weight is None else (y * weight).to(x.dtype)


class Older:
    """An operator with another interface."""

    impls = vllm_stand_in.Op(vllm_stand_in.rms_norm).impls


@pytest.mark.parametrize(
    ("op", "says"),
    [
        (vllm_stand_in.Op(other_parameters), "has other parameters; expected ('x', 'weight', 'eps"),
        (vllm_stand_in.Op(other_types), "takes no implementation"),
        (vllm_stand_in.Op(other_values), "computes something else with a weight of torch.float32"),
        (Older(), "takes no implementation"),
        (object(), "takes no implementation"),
    ],
)
def test_another_interface_is_refused(monkeypatch: pytest.MonkeyPatch, op: Any, says: str) -> None:
    stand_in(monkeypatch, ops={"rms_norm": op})
    with pytest.raises(dlblas.errors.UnsupportedError) as why:
        plugin.register()
    assert str(why.value).startswith("vllm: rms_norm ") and says in str(why.value)
    assert "; expected " in str(why.value) and ", got " in str(why.value)
    assert why.value.expected and why.value.got
    assert "dlblas" not in getattr(op, "impls", {})


def test_a_vllm_of_one_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, ops={"rms_norm": vllm_stand_in.Op(vllm_stand_in.rms_norm)})
    assert plugin.register() == ("rms_norm",)
    stand_in(monkeypatch, ops={})
    with pytest.raises(dlblas.errors.UnsupportedError, match="no operator that is offered here"):
        plugin.register()


def test_without_priorities_it_stays_out_of_the_way(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """vLLM loads every plug-in, and an exception in one ends vLLM."""
    stand_in(monkeypatch)
    monkeypatch.setitem(sys.modules, "vllm.ir", None)  # an import of it fails
    with pytest.raises(dlblas.errors.UnsupportedError, match=r"no vllm\.ir\.ops; expected .*0\.20"):
        plugin.register()
    logging.getLogger("dlblas").propagate = True
    with caplog.at_level(logging.INFO, logger="dlblas"):
        plugin.plug_in()
        assert "it has no vllm.ir.ops" in caplog.text
        caplog.clear()
        sys.modules["vllm.envs"].VLLM_PLUGINS = ["another"]
        plugin.plug_in()
        assert "it has no vllm.ir.ops" in caplog.text
    sys.modules["vllm.envs"].VLLM_PLUGINS = ["another", "dlblas"]
    with pytest.raises(dlblas.errors.UnsupportedError, match=r"no vllm\.ir\.ops"):
        plugin.plug_in()


def test_without_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("vllm", "vllm.ir"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(dlblas.errors.UnsupportedError, match="vllm: it cannot be imported"):
        plugin.register()


def test_the_entry_point_is_there() -> None:
    """vLLM finds it by its group. Parsed as text: tomllib needs Python 3.11."""
    text = (ROOT / "pyproject.toml").read_text()
    table = text.split('[project.entry-points."vllm.general_plugins"]\n')[1].split("\n[")[0]
    name, _, target = table.strip().partition(" = ")
    module, _, function = target.strip('"').partition(":")
    assert (name, module) == (plugin.PROVIDER, plugin.__name__)
    assert getattr(plugin, function) is plugin.plug_in
