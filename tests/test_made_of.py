"""Functions composed of operators (flash_attention, linear, fused_moe …), passed where an
operator's name is expected: get_op, tune, explain and warmup accept them, and everything else says
which operator to name.
"""

from __future__ import annotations

import inspect
import os
import pathlib
import pickle
import subprocess
import sys
from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas import _arguments, _faces, _made_of
from dlblas.errors import ArgumentError, ArgumentTypeError, UnknownOperatorError
from dlpack_alone import DLPackAlone

NAMES = [name for name in _faces.__all__ if callable(getattr(dlblas, name))]
MADE_OF_NONE = {"rope_tables"}  # of torch's own operators


@pytest.mark.parametrize("name", NAMES)
def test_every_one_says_what_to_name(name: str) -> None:
    x = np.ones((4, 64), "f")
    for call in (
        lambda: dlblas.pin(name, "reference"),
        lambda: dlblas.register(name, "mine", lambda x: None),
        lambda: dlblas.reference(name, (x,)),
        lambda: dlblas.verify(name, (x,), x),
    ):
        with pytest.raises(UnknownOperatorError) as refused:
            call()
        words = str(refused.value)
        assert "made of operators" in words and f"dlblas.autotune(): dlblas.{name}(" in words
    if name not in MADE_OF_NONE:
        expected = words.partition("; expected ")[2].partition(", got ")[0]
        named = expected.removeprefix("one of ").split(", ")
        rows = dlblas.info()["operators"]
        forms = {form["name"] for row in rows for form in row["forms"]}
        assert {*named} <= forms | {row["name"] for row in rows}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_array_is_taken_or_refused_by_name(name: str) -> None:
    """Whichever attribute a function reads, Python's own AttributeError does not appear."""
    function = getattr(dlblas, name)
    params = inspect.signature(function).parameters.values()
    needed = [p for p in params if p.default is p.empty]
    for value in ([1.0], DLPackAlone(np.ones((4, 8), "f")), object()):
        args = [value for p in needed if p.kind is not p.KEYWORD_ONLY]
        named = {p.name: value for p in needed if p.kind is p.KEYWORD_ONLY}
        try:
            function(*args, **named)
        except dlblas.Error as error:
            assert error.argument and "; expected " in str(error), error
        else:
            assert isinstance(value, DLPackAlone), f"{name} took {value!r}"


def test_words_for_what_is_no_array() -> None:
    x = np.ones((4, 8), "f")
    for call, words in (
        (lambda: dlblas.linear([[1.0]], x), r"linear: x has no shape.*got list; .*asarray\(x\)"),
        (lambda: dlblas.linear(x, DLPackAlone(x)), r"weight has no .* numpy\.from_dlpack\(weight"),
        (lambda: dlblas.quantize(x, [3]), "granularity is of another type; expected a string"),
        (lambda: dlblas.rope_tables(4, "8"), "rope_tables: dim .* expected an integer, got str"),
    ):
        with pytest.raises(ArgumentTypeError, match=words):
            call()


def function(
    x: Any, kind: str, flag: bool, count: int = 2, by: float = 1.0, extra: Any = None
) -> None:
    """Stands for a function in _arguments.py, which reads only its annotations."""


GOOD = {"x": np.ones(3), "kind": "a", "flag": True}


def blamed(reason: Exception, **given: Any) -> tuple[str, str]:
    """(argument, message), both empty where no argument explains the error."""
    words = _arguments.of_another_type("f", function, (), {**GOOD, **given}, reason)
    return ("", "") if words is None else (words.argument, str(words))


def test_an_argument_that_fits_is_not_blamed() -> None:
    """The error has another cause. A string or a bool that matches its annotation is not blamed for
    having no shape, even if the bool is the very object whose attribute was missing."""
    asked = AttributeError("'bool' object has no attribute 'sum'", obj=True)
    for reason in (ValueError("not enough values"), TypeError("unsupported"), asked):
        assert blamed(reason) == ("", "")
        assert blamed(reason, count=3, by=2, extra=0.5) == ("", "")
        assert blamed(reason, extra=None) == ("", "")


def test_the_argument_that_explains_an_error_is_blamed() -> None:
    reason = TypeError("unsupported operand")
    for given, argument, words in (
        ({"count": None}, "count", "expected an integer, got None"),
        ({"by": None}, "by", "expected a number, got None"),
        ({"by": "1"}, "by", "expected a number, got str"),
        ({"kind": None}, "kind", "expected a string, got None"),
        ({"kind": 3}, "kind", "expected a string, got int"),
        ({"x": None}, "x", "x is missing; expected a torch tensor or a NumPy array"),
        ({"x": "ab"}, "x", "x has no shape"),
        ({"x": [1.0]}, "x", "got list; pass numpy.asarray(x)"),
        ({"x": 3}, "x", "got int"),
        # An argument that is plainly of another type is named before one that might be an array.
        ({"x": [1.0], "count": "2"}, "count", "expected an integer"),
    ):
        got = blamed(reason, **given)
        assert got[0] == argument and words in got[1], got
    array = np.ones(3)
    got = blamed(AttributeError("no attribute 'device'", obj=array), x=array)
    assert got[0] == "x" and "x is a NumPy array; expected a torch tensor" in got[1]
    assert blamed(AttributeError("no attribute 'shape'", obj=GOOD["flag"]), x=[1])[0] == ""


def test_names_of_others_say_it_too() -> None:
    """So do functions written in Python outside ops/, and classes through their __init__."""

    @_arguments.hinted
    def called(x: Any, count: int = 1) -> Any:
        return x.shape[count - 1]

    @_arguments.hinted
    class Made:
        def __init__(self, size: int, kind: str = "a") -> None:
            self.size = 2 ** (size + 1), kind + ""

    assert called(np.ones((2, 3)), 2) == 3 and Made(1).size == (4, "a")
    for call, words in (
        (lambda: called(None), "called: x is missing"),
        (lambda: called([1.0]), "called: x has no shape"),
        (lambda: called(np.ones(3), "1"), "called: count is of another type"),
        (lambda: Made(None), "Made: size is of another type; expected an integer, got None"),
        (lambda: Made(1, 2), "Made: kind is of another type; expected a string, got int"),
        (lambda: Made(), "Made: size is missing"),
    ):
        with pytest.raises(ArgumentTypeError, match=words):
            call()
    with pytest.raises(IndexError):  # an error of another cause stays what it is
        called(np.ones(3), 4)


def test_what_they_are_made_of() -> None:
    assert _made_of.operators_of(dlblas.linear) == ["matmul", "linear_residual"]
    assert {*_made_of.operators_of(dlblas.bmm)} == {"matmul", "batched_matmul", "batched_matmul_nt"}
    assert {*_made_of.operators_of(dlblas.fused_moe)} >= {"grouped_gemm_rows", "moe_permute"}
    assert _made_of.operators_of(dlblas.causal_conv1d_update) == ["causal_conv1d_batch"]
    assert "quantize_block128" in _made_of.operators_of(dlblas.quantize)


def test_get_op_searches_what_a_call_runs() -> None:
    q = np.random.default_rng(0).standard_normal((1, 24, 2, 32), dtype=np.float32)
    op = dlblas.get_op("flash_attention", (q, q, q), kwargs={"causal": True}, effort="quick")
    assert op.report.source == "tuned" and "flash_attention_lse [" in str(op.report)
    assert repr(op).startswith("<flash_attention(causal=True) → flash_attention_lse ")
    assert [one["op"] for one in op.explain().as_dict()["parts"]] == ["flash_attention_lse"]
    assert np.array_equal(op(q, q, q), dlblas.flash_attention(q, q, q, causal=True))
    before = dlblas.counters()["measured"]
    again = dlblas.get_op("flash_attention", (q, q, q), kwargs={"causal": True}, effort="quick")
    assert again.report.source == "store" and "known" in repr(again)
    assert dlblas.counters()["measured"] == before > 0
    assert "(store)" in str(dlblas.explain("flash_attention_lse", q, q, q, causal=True))


MOE = (
    *(np.ones(s, "f") for s in ((6, 16), (3, 16, 16), (3, 16, 8), (6, 2))),
    np.stack([np.arange(6) % 3, (np.arange(6) + 1) % 3], 1),
)


def test_tune_searches_each_operator_that_a_call_runs() -> None:
    report = dlblas.tune("fused_moe", MOE, seconds=0.2)
    assert report.op == "fused_moe" and report.source == "tuned"
    ops = [one["op"] for one in report["parts"]]
    assert ops == [
        "moe_sort", "grouped_gemm_gathered", "silu_and_mul", "grouped_gemm_rows", "moe_unpermute"
    ]  # fmt: skip
    assert all(one["served"] and f"{one['op']} [" in str(report) for one in report["parts"])
    parts = dlblas.explain("fused_moe", *MOE).as_dict()["parts"]
    assert [part["op"] for part in parts] == ops and {part["source"] for part in parts} == {"store"}
    assert dlblas.get_op("fused_moe", MOE, seconds=0.2).report.source == "store"
    with pytest.raises(TypeError, match=r"tune: args"):
        dlblas.tune("fused_moe", *MOE[:1])


def test_indices_that_a_call_computes_are_drawn() -> None:
    """They have no values where nothing is computed: a search that read them would crash."""
    x, ids = np.ones((2, 3, 16), "f"), np.zeros((3, 2, 2), "i4").swapaxes(0, 1)
    ids[..., 1] = 1
    report = dlblas.tune("moe_permute", (x, ids, 4), seconds=0.2)  # merges dimensions: a copy
    assert report["served"]
    pages = np.array([0, 2, 3], "i4"), np.array([2, 0, 1], "i4"), np.array([3, 4], "i4")
    cache = np.ones((3, 4, 2, 16), "f")
    args = np.ones((2, 4, 16), "f"), cache, cache, pages
    report = dlblas.tune("paged_attention", args, seconds=0.2)
    assert [one["op"] for one in report["parts"]] == ["paged_attention_lse"]
    assert dlblas.explain("paged_attention", *args).as_dict()["source"] == "store"
    found = dlblas.explain("quantize_mx", np.ones((4, 64), "f"), "nvfp4").as_dict()["parts"]
    assert [one["op"] for one in found] == ["quantize_tensor", "quantize_nvfp4"]


def test_a_spec_serves_where_nothing_is_called() -> None:
    x, w = dlblas.Spec((5, 48), "f32"), np.ones((8, 48), "f")
    known = dlblas.explain("linear", x, w).as_dict()["candidates"]
    names = [one["implementation"] for one in known if one["supports"]]
    names.remove("reference")
    report = dlblas.tune("linear", (x, w), seconds=0.2, implementations=names[-1:])
    assert [one["op"] for one in report["parts"]] == ["matmul"]
    assert report["parts"][0]["winner"]["implementation"] == names[-1]
    op = dlblas.get_op("linear", (x, w), kwargs={"activation": "silu"}, seconds=0.2)
    assert op.report["parts"][0]["op"] == "matmul" and "silu" in repr(op)
    assert op(np.ones((5, 48), "f"), w).shape == (5, 8)
    with pytest.raises(UnknownOperatorError, match="rope_tables"):
        dlblas.tune("rope_tables", (4, 8))


def test_tune_without_torch_makes_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dlblas._called.record", lambda *_: None)
    q = np.random.default_rng(0).standard_normal((1, 20, 2, 32), dtype=np.float32)
    for _ in range(2):  # measures known problems again
        before = dlblas.counters()["measured"]
        report = dlblas.tune("flash_attention", (q, q, q), seconds=0.2)
        assert [one["op"] for one in report["parts"]] == ["flash_attention_lse"]
        assert dlblas.counters()["measured"] > before
    with pytest.raises(ArgumentError, match=r"tune: args holds a Spec.*name one of matmul"):
        dlblas.tune("linear", (dlblas.Spec((4, 64), "f32"), np.ones((8, 64), "f")))


def test_written_arguments_are_copied_as_they_lie() -> None:
    """The caller's cache is unchanged, and the key describes the caller's layout."""
    cache = np.zeros((4, 16, 2, 64), np.float32)[:, :, :, :32]
    rows = np.ones((3, 2, 32), np.float32)
    slots = np.arange(3, dtype=np.int64)
    tuned = dlblas.get_op("fill_kv_cache", (rows, rows, cache, cache.copy(), slots), seconds=0.2)
    assert not cache.any() and tuned.report.source in ("tuned", "store")
    torch = pytest.importorskip("torch")
    for array in (cache, torch.zeros(4, 8)[:, ::2], torch.zeros(4, 8).T, np.zeros((8, 4)).T):
        copy = _made_of._copied(array)
        steps = [a.stride() if hasattr(a, "stride") else a.strides for a in (array, copy)]
        assert steps[0] == steps[1] and copy.shape == array.shape and copy is not array


def test_what_does_not_fit_a_function_is_refused() -> None:
    x, w = np.ones((4, 64), "f"), np.ones((8, 64), "f")
    with pytest.raises(ArgumentError, match=r"space is an operator's.*name one of matmul"):
        dlblas.get_op("linear", (x, w), space={"block_n": [16]})
    with pytest.raises(
        ArgumentError, match=r"tune: space is an operator's.*fused_moe runs several"
    ):
        dlblas.tune("fused_moe", MOE, space={"block_n": [16]})
    with pytest.raises(TypeError, match=r"weight is missing; .*signature is linear"):
        dlblas.get_op("linear", (x,))


@pytest.mark.parametrize("choose", [dlblas.tune, dlblas.get_op])
def test_arguments_that_are_no_tuple(choose) -> None:
    x, w = np.ones((4, 64), "f"), np.ones(64, "f")
    with pytest.raises(TypeError, match=r'got 3 arguments; write dlblas\.\w+\("rms_norm", \(x, w'):
        choose("rms_norm", x, w)


def test_an_unknown_name_gets_the_nearest_not_all() -> None:
    with pytest.raises(UnknownOperatorError) as refused:
        dlblas.explain("rmsnorm", np.ones((4, 64), "f"))
    words = str(refused.value)
    assert "expected one of rms_norm, rms_norm_, " in words and "did you mean rms_norm?" in words
    assert len(words) < 250 and "names: dlblas list)" in words
    assert "softmax_backward" in refused.value.expected
    env = {**os.environ, "PYTHONPATH": str(pathlib.Path(dlblas.__file__).parents[1])}
    said = subprocess.run([sys.executable, "-m", "dlblas", "explain", "linear"],
                          capture_output=True, text=True, env=env)  # fmt: skip
    assert said.returncode == 2 and "one of matmul, linear_residual, got" in said.stderr


@pytest.mark.parametrize("name", NAMES)
def test_an_argument_that_is_none_is_named(name: str) -> None:
    with pytest.raises(TypeError) as refused:
        getattr(dlblas, name)(no_such_argument=1)
    assert str(refused.value).startswith(f"{name}: no_such_argument is not an argument; expected ")
    assert isinstance(refused.value, ArgumentError)


def test_arguments_of_a_call_are_told_in_the_librarys_words() -> None:
    q = np.ones((1, 4, 2, 8), "f")
    with pytest.raises(TypeError, match=r"softmax_scale is not.*did you mean scale\?"):
        dlblas.flash_attention(q, q, q, softmax_scale=1.0)
    with pytest.raises(TypeError, match=r"topk is not an argument.*did you mean top_k\?"):
        dlblas.sample(q[0, :, 0], topk=5)
    with pytest.raises(TypeError, match=r"at most 3, got 4; the signature is gated_mlp\(x, w_gate"):
        dlblas.gated_mlp(q[0, 0], q[0, 0], q[0, 0], q[0, 0])
    with pytest.raises(
        TypeError, match=r"weight is missing; .*the signature is linear\(x, weight, "
    ):
        dlblas.linear(q[0, 0])
    with pytest.raises(ValueError, match=r"expected \[N, 8\], got \(2, 4\); weight is \[out_feat"):
        dlblas.linear(q, q[0, :, :, 0].T)
    with pytest.raises(ValueError, match=r"^flash_attention_lse: .*; called by flash_attention$"):
        dlblas.flash_attention(q, q[:, :, :, :4], q)

    class Broken:
        shape = (2, 2)
        dtype = np.float32

        @property
        def T(self) -> None:  # noqa: N802
            raise TypeError("of its own")

    with pytest.raises(TypeError, match=r"^of its own$"):
        dlblas.linear(np.ones((2, 2), "f"), Broken())


def test_they_are_found_where_they_say() -> None:
    for name in NAMES:
        function = getattr(dlblas, name)
        assert pickle.loads(pickle.dumps(function)) is function
        assert function.__doc__ and function.__module__ == "dlblas"


# ---- torch.ops.dlblas.* --------------------------------------------------------------------------


def torch_calls() -> dict[str, Any]:
    """Name -> arguments of a call through torch.ops."""
    import torch

    torch.manual_seed(1)
    rand = torch.randn
    x, vector, logits = rand(4, 256), rand(256), rand(6, 8, requires_grad=True)
    q, scale = dlblas.quantize(x, "group128", "i8")  # opcheck multiplies, which f8 has not
    slots = torch.tensor([5, -1, 0])
    heads, token = rand(3, 2, 32), rand(3, 32)
    latent = rand(2, 3, 2, 48), rand(2, 3, 1, 16), rand(2, 3, 2, 56)
    tables = rand(3, 16), rand(3, 16)
    return {
        "quantize": (x, "token"),
        "dequantize": (q, scale),
        "quantize_mx": (x, "mxfp8"),
        "group_norm": (rand(2, 8, 6, requires_grad=True), 4, rand(8), rand(8)),
        "layernorm_gated": (x, vector, None, rand(4, 256), 1e-6, 64),
        "rms_norm_quant": (x, vector),
        "add_rms_norm_quant": (x, vector, rand(4, 256), 1e-6, 0.0, "tensor", torch.tensor(0.5)),
        "silu_and_mul_quant": (x, "group64"),
        "mrope": (
            heads,
            heads[:, :1],
            torch.zeros(3, 3, dtype=torch.int64),
            rand(5, 32),
            [8, 4, 4],
        ),
        "fused_rmsnorm_rope": (rand(1, 3, 64, requires_grad=True), rand(64), *tables),
        "partial_rotary_emb": (*(t.requires_grad_() for t in latent), *tables),
        "topk_gating": (logits, 2),
        "fill_kv_cache": (heads, heads, *torch.zeros(2, 2, 4, 2, 32), slots),
        "store_mla_cache": (token, token, *torch.zeros(2, 2, 4, 32), slots),
        "cross_entropy": (logits, torch.arange(6)),
        "rope_tables": (torch.arange(5), 8),
    }


TORCH_CALLS = [
    "quantize", "dequantize", "quantize_mx", "group_norm", "layernorm_gated", "rms_norm_quant",
    "add_rms_norm_quant", "silu_and_mul_quant", "mrope", "fused_rmsnorm_rope", "partial_rotary_emb",
    "topk_gating", "fill_kv_cache", "store_mla_cache", "cross_entropy", "rope_tables",
]  # fmt: skip


def results_of(returned: Any) -> list[Any]:
    return (
        []
        if returned is None
        else [*returned]
        if isinstance(returned, (tuple, list))
        else [returned]
    )


def test_every_one_is_torchs() -> None:
    torch = pytest.importorskip("torch")
    for name in NAMES:
        assert "default" in getattr(torch.ops.dlblas, name).overloads()
    assert torch.ops.dlblas.rope_tables(5, 8)[0].shape == (5, 4)
    x, scale = torch.randn(4, 8), torch.tensor(2.0)
    _, given = torch.ops.dlblas.quantize(x, "tensor", torch.int8, scale)
    assert given is not scale and torch.equal(given, scale)  # no result is an argument


@pytest.mark.parametrize("name", TORCH_CALLS)
def test_as_torchs_operator(name: str) -> None:
    """Gives the function's results; works on fake tensors and traced into one graph, and passes
    opcheck."""
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    calls, operator = torch_calls(), getattr(torch.ops.dlblas, name)
    args = calls[name]
    arguments = operator.default._schema.arguments
    given = {p.name: value for p, value in zip(arguments, args, strict=False)}
    want = results_of(getattr(dlblas, name)(**given))
    got = results_of(operator(*args))
    assert len(got) == len(want) > 0 or name in ("fill_kv_cache", "store_mla_cache")
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    with FakeTensorMode() as mode:
        tensors = [mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args]
        for one, other in zip(results_of(operator(*tensors)), want, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
    torch._dynamo.reset()  # one code object, compiled for many
    compiled = torch.compile(lambda *args: operator(*args), fullgraph=True, backend="aot_eager")
    for one, other in zip(results_of(compiled(*args)), want, strict=True):
        torch.testing.assert_close(one, other)
    assert {*torch.library.opcheck(operator.default, args).values()} == {"SUCCESS"}


@pytest.mark.parametrize("granularity", ["token", "group32", "tensor", "channel", "block128"])
def test_dtypes_by_name_on_fake_tensors(granularity: str) -> None:
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    want = dlblas.quantize(torch.randn(4, 256), granularity)
    with FakeTensorMode():
        for x in (torch.randn(4, 256), torch.randn(4, 256, device="meta")):
            got = dlblas.quantize(x, granularity, "f8e4m3")
            assert [(t.shape, t.dtype) for t in got] == [(t.shape, t.dtype) for t in want]
        x = torch.randn(4, 256)
        assert dlblas.silu_and_mul_quant(x)[0].dtype is torch.float8_e4m3fn
        assert dlblas.quantize(x, "tensor", scale=2.0)[0].dtype is torch.float8_e4m3fn
        assert dlblas.fp8_gemm(x, x.T, output_dtype="bf16").dtype is torch.bfloat16


def test_tables_of_rope_are_traced() -> None:
    torch = pytest.importorskip("torch")
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}

    def tables(x: Any) -> Any:
        return *dlblas.rope_tables(x.shape[0], 8), *dlblas.rope_tables(x, 8, scaling=scaling)

    compiled = torch.compile(tables, fullgraph=True, dynamic=True, backend="aot_eager")
    for length in (5, 9):
        x = torch.arange(length)
        torch.testing.assert_close(compiled(x), tables(x))


OUT_CALLS: list[tuple[str, str, dict[str, Any]]] = [
    *(("quantize", "x", {"granularity": g}) for g in ("token", "group32", "tensor", "channel")),
    ("quantize", "x", {"granularity": "tensor", "scale": 2.0}),
    ("quantize", "x", {"granularity": "token", "scale_layout": "column_major_tma"}),
    *(
        (name, args, how)
        for name, args in (
            ("rms_norm_quant", "x w"), ("add_rms_norm_quant", "x w x"), ("silu_and_mul_quant", "x"),
        )
        for how in (
            {}, {"granularity": "group64"}, {"granularity": "tensor", "scale": np.float32(2)},
        )
    ),
    ("silu_and_mul_quant", "x3", {"granularity": "group64", "masked_m": np.array([4, 4])}),
    ("group_norm", "image", {"groups": 4}),
    ("layernorm_gated", "x w", {"group_size": 64}),
    ("fused_rmsnorm_rope", "x w table table", {}),
    ("topk_gating", "x", {"k": 2}),
    ("partial_rotary_emb", "q k kv rows rows", {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "names", "how"), OUT_CALLS)
@pytest.mark.parametrize("package", ["numpy", "torch"])
def test_results_are_written_into_out(
    package: str, name: str, names: str, how: dict[str, Any]
) -> None:
    rng = np.random.default_rng(4)
    shapes = {
        "x": (4, 256), "w": (256,), "x3": (2, 4, 256), "image": (2, 8, 6, 5), "table": (4, 32),
        "q": (2, 3, 2, 48), "k": (2, 3, 1, 16), "kv": (2, 3, 2, 56), "rows": (3, 16),
    }  # fmt: skip
    args = [rng.standard_normal(shapes[one]).astype("f") for one in names.split()]
    how, empty_like = {**how}, np.empty_like
    if package == "torch":
        torch = pytest.importorskip("torch")
        empty_like = torch.empty_like
        args = [torch.from_numpy(array) for array in args]
        how = {k: torch.as_tensor(v) if hasattr(v, "dtype") else v for k, v in how.items()}
    call = getattr(dlblas, name)
    want = call(*args, **how)
    alone = not isinstance(want, tuple)
    wanted = [want] if alone else [*want]
    out = [empty_like(one) if hasattr(one, "shape") else np.empty((), "f") for one in wanted]
    got = call(*args, **how, out=out[0] if alone else tuple(out))
    for one, place, value in zip([got] if alone else got, out, wanted, strict=True):
        assert one is place
        one, value = (x.float() if package == "torch" and hasattr(x, "float") else x
                      for x in (one, value))  # fmt: skip
        np.testing.assert_array_equal(np.asarray(one, "f"), np.asarray(value, "f"))


def test_out_that_does_not_fit() -> None:
    image = np.ones((2, 8, 6, 5), "f")
    with pytest.raises(ValueError, match="group_norm: out does not fit; expected x's shape"):
        dlblas.group_norm(image, 4, out=image[0])
    with pytest.raises(ArgumentError, match="out is out of range; expected a tuple of 4"):
        dlblas.topk_gating(image[0, 0], 2, out=image)
    lies = np.empty((2, 6, 5, 8), "f").transpose(0, 3, 1, 2)  # no view of it is of groups
    assert dlblas.group_norm(image, 4, out=lies) is lies
    np.testing.assert_array_equal(lies, dlblas.group_norm(image, 4))


def test_errors_of_functions_that_compute_around_operators() -> None:
    """Whatever torch would say of a wrong value is the library's error, with the caller's name."""
    torch = pytest.importorskip("torch")
    q, x, three = torch.randn(1, 4, 2, 16), torch.randn(6, 16), torch.ones(3)
    f8 = q.to(torch.float8_e4m3fn)
    weights = torch.rand(6, 2)
    moe = x, torch.randn(3, 16, 16), torch.randn(3, 16, 8), weights, torch.from_numpy(MOE[4])
    ids = moe[4]
    rows = x, torch.randn(8, 16), torch.arange(6)
    row = x[0], three[0], x[0], three[0]

    def experts(**other: Any) -> Any:
        names = ("x", "w13", "w2", "topk_weights", "topk_ids")
        return dlblas.fused_moe(**{**dict(zip(names, moe, strict=True)), **other})

    def kernel(**other: Any) -> Any:
        from dlblas.kernels.fused_moe import fused_moe

        names = ("hidden_states", "w1", "w2", "topk_weights", "topk_ids")
        return fused_moe(**{**dict(zip(names, moe, strict=True)), "topk": 2, **other})

    def losses(**other: Any) -> Any:
        names = ("x", "weight", "target")
        return dlblas.fused_linear_cross_entropy(**{**dict(zip(names, rows, strict=True)), **other})

    for argument, call in (
        ("softcap", lambda: dlblas.flash_attention(q, q, q, softcap=three)),
        ("q", lambda: dlblas.flash_attention("q", f8, f8, q_descale=three)),
        ("q", lambda: dlblas.flash_attention(q.double(), q, q, q_descale=three)),
        ("o1", lambda: dlblas.merge_attention_states(torch.Tensor, *row[1:])),
        ("capacity_factor", lambda: dlblas.topk_gating(x, 2, three)),
        ("higher_precision", lambda: dlblas.topk_gating(x, 2, higher_precision=three)),
        ("renormalize", lambda: experts(renormalize=three)),
        ("expert_offset", lambda: experts(expert_offset=2**70)),
        ("topk_ids", lambda: experts(topk_ids=ids.double(), expert_map=torch.arange(3))),
        ("topk_ids", lambda: experts(topk_ids=ids.to("meta"), expert_map=torch.arange(3))),
        ("expert_map", lambda: experts(expert_map=torch.arange(3).to("meta"))),
        ("w13", lambda: experts(w13=moe[1].to_sparse())),
        ("w2", lambda: experts(w2=moe[2].to("meta"))),
        ("w2", lambda: experts(w2=moe[2].clone().requires_grad_(), out=x + 0)),
        ("hidden_states", lambda: kernel(hidden_states=x.double())),
        ("w1", lambda: kernel(w1=moe[1].half())),
        ("weight", lambda: dlblas.cross_entropy(x, rows[2], np.ones(16, "f"))),
        ("label_smoothing", lambda: dlblas.cross_entropy(x, rows[2], label_smoothing=three)),
        ("lse_square_scale", lambda: dlblas.cross_entropy(x, rows[2], lse_square_scale=2**70)),
        ("lse_square_scale", lambda: losses(lse_square_scale=three)),
        ("target", lambda: losses(target=rows[2].double())),
        ("target", lambda: losses(target=rows[2].to("meta"))),
        ("ce_weight", lambda: losses(ce_weight=torch.ones(1, 8))),
        ("ce_weight", lambda: losses(ce_weight=torch.ones(8).to("meta"))),
        ("x", lambda: losses(x=x[0, 0])),
    ):
        with pytest.raises(dlblas.Error, match=f": {argument} ") as refused:
            call()
        assert refused.value.argument == argument
    assert dlblas.sample(x, temperature=2**70).shape == (6,)
