"""Errors as Python sees them: classes, builtin bases, attributes, and some exact texts.

Read next: python/dlblas/errors.py.
"""

from __future__ import annotations

import pickle

import dlblas
import numpy as np
import pytest
from dlblas import errors

X = np.ones((7, 4096), np.float32)
W = np.ones(4096, np.float32)


def test_every_kind_is_the_builtin_one_too():
    bases = {
        errors.ShapeMismatchError: ValueError,
        errors.UnsupportedDtypeError: TypeError,
        errors.DeviceError: ValueError,
        errors.ArgumentError: ValueError,
        errors.ArgumentTypeError: TypeError,
        errors.NumericalOverflowError: errors.ArgumentError,
        errors.UnknownOperatorError: NameError,
        errors.UnsupportedError: LookupError,
        errors.CompileError: RuntimeError,
        errors.LaunchError: RuntimeError,
        errors.TuningFailedError: RuntimeError,
        errors.InternalError: RuntimeError,
    }
    for cls, base in bases.items():
        assert issubclass(cls, errors.Error) and issubclass(cls, base)
        assert cls.__name__ in errors.__all__ and cls.__qualname__ == cls.__name__
    assert issubclass(errors.ArgumentTypeError, errors.ArgumentError)
    assert issubclass(errors.UnsupportedError, NotImplementedError)
    assert errors.TritonKernelError is errors.Error is dlblas.Error


CASES = [
    (
        lambda: dlblas.rms_norm(X, W[:4095]),
        errors.ShapeMismatchError,
        "rms_norm: weight has length 4095; expected C = 4096 from x [T=7, C=4096], got 4095",
    ),
    (
        lambda: dlblas.rms_norm([1.0], W),
        errors.ArgumentError,
        "rms_norm: x is not an array; expected an array with __dlpack__ or __array_interface__, "
        "got list; convert it, for example with numpy.asarray()",
    ),
    (
        lambda: dlblas.rms_norm(X, W, 1e-6, 2.0),
        errors.ArgumentError,
        "rms_norm: call has too many positional arguments; expected at most 3, got 4; "
        "the signature is "
        "rms_norm(x, weight=None, eps=1e-06, *, weight_offset=0.0, cast_before_weight=False, "
        "out=None, stream=None)",
    ),
    (
        lambda: dlblas.add_rms_norm(X, W, X, out=X),
        errors.ArgumentError,
        "add_rms_norm: out has the wrong number of arrays; expected 2 (y, residual_out), got 1; "
        "pass a tuple in result order",
    ),
    (
        lambda: dlblas.rms_norm(X, W, eps=b"1"),  # float() would read it
        errors.ArgumentError,
        "rms_norm: eps has the wrong type; expected a number, got bytes; convert it",
    ),
    (
        lambda: dlblas.rms_norm(X, W, eps=10**400),
        errors.ArgumentError,
        "rms_norm: eps is too large; expected a number, got an integer beyond the range of float; "
        "pass a smaller one",
    ),
    (
        lambda: dlblas.rms_norm(X, W, cast_before_weight=2**70),
        errors.ArgumentError,
        "rms_norm: cast_before_weight is too large; expected a 64-bit integer, "
        "got an integer beyond 2^63; pass a smaller one",
    ),
    (
        lambda: dlblas.get_op("rms_norm", [X, W]),
        TypeError,
        "get_op: args is not a tuple; expected a tuple of rms_norm's arguments, got list; "
        "write (x,) for one",
    ),
]


@pytest.mark.parametrize("call, cls, text", CASES)
def test_exact_texts(call, cls, text):
    with pytest.raises(cls) as caught:
        call()
    assert str(caught.value) == text
    assert isinstance(caught.value, errors.Error)


def test_what_torch_users_write_is_answered():
    half = np.ones(4, "e")
    x, words = np.ones((2, 4), "f"), "leave normalized_shape out: "
    for call, remedy in (
        (
            lambda: dlblas.rms_norm(x, half),
            "; cast it: weight.to(x.dtype) in torch, weight.astype(",
        ),
        (lambda: dlblas.matmul(x, half[:, None]), "; cast it: b.to(a.dtype) in torch, b.astype("),
        (lambda: dlblas.rms_norm(x, (4,), half), words + "rms_norm(x, weight)"),
        (lambda: dlblas.layer_norm(x, [4], half), words + "layer_norm(x, weight)"),
        (lambda: dlblas.layer_norm(x, 4), words + "layer_norm(x, weight)"),
        (lambda: dlblas.gelu(x, approximate="tanh"), '; gelu_tanh is that of approximate="tanh"'),
    ):
        with pytest.raises(errors.Error) as error:
            call()
        assert remedy in str(error.value)
    with pytest.raises(errors.UnsupportedDtypeError) as error:
        dlblas.rms_norm(x, x[0], out=x.astype("e"))
    assert "cast it" not in str(error.value)


def test_unknown_repeated_and_missing_names():
    for kwargs, words in (
        ({"x": X, "weight": W, "epsilon": 1}, "epsilon is not an argument"),
        ({"weight": W}, "x is missing"),
        ({}, "x is missing"),
    ):
        with pytest.raises(errors.ArgumentError, match=words):
            dlblas.rms_norm(**kwargs)
    with pytest.raises(errors.ArgumentError, match="x is given twice"):
        dlblas.rms_norm(X, W, x=X)


@pytest.mark.parametrize("array", [np.ones, pytest.param("torch", id="torch")])
def test_names_that_are_no_unicode(array):
    ones = pytest.importorskip("torch").ones if array == "torch" else array
    x, w = ones((2, 4)), ones((4,))
    for name, told in (("eps\udc80", r"eps\udc80"), ("eps\0", r"eps\0")):
        with pytest.raises(errors.ArgumentError) as caught:
            dlblas.rms_norm(x, w, **{name: 1e-6})
        assert str(caught.value).startswith(f"rms_norm: {told} is not an argument; ")
    with pytest.raises(errors.ArgumentError, match="activation is no name; expected a text"):
        dlblas.matmul(x, ones((4, 2)), activation="relu\udc80")


def test_attributes():
    with pytest.raises(errors.ShapeMismatchError) as shape:
        dlblas.rms_norm(X, W[:5])
    assert (shape.value.op, shape.value.tensor_name, shape.value.actual) == (
        "rms_norm",
        "weight",
        "5",
    )
    assert "C = 4096" in shape.value.expected
    with pytest.raises(errors.UnsupportedDtypeError) as dtype:
        dlblas.rms_norm(X.astype(np.float64), W)
    assert (dtype.value.dtype, dtype.value.tensor_name) == ("f64", "x")
    assert dtype.value.supported_dtypes == ["f32", "f16", "bf16"]
    with pytest.raises(NameError, match="rms_norm") as name:
        dlblas.get_op("rms_nrom", (X, W))
    assert isinstance(name.value, errors.UnknownOperatorError)


@pytest.mark.parametrize("name", ["reference\0x", "\udc80"])
def test_a_name_that_no_c_string_holds_is_unknown(name: str):
    """It is not cut off at the NUL: what stands before it could be a valid name."""
    for call in (
        lambda: dlblas.pin("rms_norm", name),
        lambda: dlblas.pin("rms_norm", "cpu_baseline", f"task_kib=64{name}"),
        lambda: dlblas.tune("rms_norm", (X, W), strategy=name),
        lambda: dlblas.tune("rms_norm", (X, W), implementations=[name]),
        lambda: dlblas.tune("rms_norm", (X, W), space={name: [1]}),
        lambda: dlblas.explain("rms_norm", X, W, eps=name),
        lambda: dlblas.matmul(X, X.T, activation=f"silu{name}"),
        lambda: dlblas.matmul(X, X.T, out_dtype=f"f32{name}"),
    ):
        with pytest.raises(errors.ArgumentError):
            call()
    for ask in (dlblas.explain, lambda op, *args: dlblas.get_op(op, args), dlblas.warmup):
        with pytest.raises(errors.UnknownOperatorError):
            ask(f"rms_norm{name}", X, W)


def test_constructors_that_users_know():
    shape = errors.ShapeMismatchError((1, 2), (3, 4), "x")
    assert (shape.expected, shape.actual, shape.tensor_name) == ((1, 2), (3, 4), "x")
    dtype = errors.UnsupportedDtypeError("f64", ["f32", "f16"], "x")
    assert (dtype.dtype, dtype.supported_dtypes) == ("f64", ["f32", "f16"])
    device = errors.DeviceError("cuda", "cpu", "w")
    assert (device.expected_device, device.actual_device) == ("cuda", "cpu")
    overflow = errors.NumericalOverflowError("too big", max_value=9.0, scale=2.0, attempts=3)
    assert (str(overflow), overflow.max_value, overflow.scale, overflow.attempts) == (
        "too big",
        9.0,
        2.0,
        3,
    )
    failed = errors.TuningFailedError((1, 2), 5, "boom")
    assert (failed.problem_size, failed.configs_tried, failed.last_error) == ((1, 2), 5, "boom")
    for error in (shape, dtype, device, overflow, failed):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again) == str(error) and again.__dict__ == error.__dict__


@pytest.mark.parametrize(
    ("call", "argument", "expected"),
    [
        (lambda: dlblas.pin("silu", 0), "implementation", "an implementation's name, got int"),
        (lambda: dlblas.pinned("silu", 0).__enter__(), "implementation", "name, got int"),
        (lambda: dlblas.pin("silu", "cpu_avx2", 3), "config", "knobs and their values, got int"),
        (lambda: dlblas.tune("silu", (X,), space={1: 2}), "space", "got int"),
        (lambda: dlblas.tune("silu", (X,), space={None: [1]}), "space", "got NoneType"),
        (lambda: dlblas.tune("silu", (X,), space={b"rows": [1]}), "space", "got bytes"),
        (lambda: dlblas.tune("silu", (X,), space={"cpu_avx2": {1: 2}}), "space", "got int"),
        (lambda: dlblas.get_op("silu", (X,), space={1: 2}), "space", "got int"),
        (lambda: dlblas.tune("silu", (X,), where=3), "where", "a function or a text, got int"),
        (lambda: dlblas.cache.pin("silu", 0), "implementation", "a text, got int"),
        (lambda: dlblas.cache.forbid(0, "cpu_avx2"), "op", "a text, got int"),
        (lambda: dlblas.cache.unpin("silu", key=0), "key", "a text, got int"),
        (lambda: dlblas.cache.pin("silu", "cpu_avx2", 7), "config", "values, got int"),
    ],
)
def test_what_is_no_text_is_refused_by_name(call, argument, expected):
    with pytest.raises(errors.ArgumentTypeError) as refused:
        call()
    assert refused.value.argument == argument
    assert f"{argument} has the wrong type; expected" in str(refused.value)
    assert expected in str(refused.value)
