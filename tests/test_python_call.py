"""The operator call from Python: names, outputs, in-place forms, references, threads.

In: the built package. Read next: bindings/python/marshal.cpp.
"""

from __future__ import annotations

import gc
import inspect
import pickle
import sys
import threading

import dlblas
import numpy as np
import pytest


def rms(x, w, eps=1e-6, offset=0.0):
    x = x.astype(np.float64)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * (w.astype(np.float64) + offset)


@pytest.fixture
def xw():
    rng = np.random.default_rng(7)
    return rng.standard_normal((5, 96), np.float32), rng.standard_normal(96, np.float32)


def test_positional_and_keyword_calls_agree(xw):
    x, w = xw
    expected = dlblas.rms_norm(x, w, 1e-3)
    np.testing.assert_allclose(expected, rms(x, w, 1e-3), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(dlblas.rms_norm(weight=w, eps=1e-3, x=x), expected)
    np.testing.assert_array_equal(dlblas.rms_norm(x, eps=np.float32(1e-3), weight=w), expected)


def test_names_that_are_not_interned_are_found(xw):
    x, w = xw
    name = "".join(["wei", "ght"])
    assert name is not sys.intern("weight")
    np.testing.assert_array_equal(dlblas.rms_norm(x, **{name: w}), dlblas.rms_norm(x, w))


def test_keyword_only_arguments(xw):
    x, w = xw
    y = dlblas.rms_norm(x, w, weight_offset=1)
    np.testing.assert_allclose(y, rms(x, w, offset=1), rtol=1e-5, atol=1e-6)
    with pytest.raises(dlblas.errors.ArgumentError, match="too many positional arguments"):
        dlblas.rms_norm(x, w, 1e-6, 1.0)


def test_scalars_of_numpy_are_read_as_pythons(xw):
    x, w = xw
    expected = dlblas.rms_norm(x, w, 0.5, weight_offset=1, cast_before_weight=True)
    for eps in (np.float64(0.5), np.float32(0.5), np.float16(0.5)):
        for offset in (np.int64(1), np.uint8(1), np.float32(1)):
            y = dlblas.rms_norm(x, w, eps, weight_offset=offset, cast_before_weight=np.True_)
            np.testing.assert_array_equal(y, expected)
    assert np.array_equal(
        dlblas.rms_norm(x, w, cast_before_weight=np.False_), dlblas.rms_norm(x, w)
    )
    np.testing.assert_array_equal(dlblas.rms_norm(x, w, 10**30), dlblas.rms_norm(x, w, 1e30))


def test_none_means_the_default(xw):
    x, w = xw
    np.testing.assert_array_equal(dlblas.rms_norm(x, w, None, out=None), dlblas.rms_norm(x, w))


def test_out_is_written_and_returned(xw):
    x, w = xw
    y = np.full_like(x, 9)
    assert dlblas.rms_norm(x, w, out=y) is y
    np.testing.assert_array_equal(y, dlblas.rms_norm(x, w))


def test_two_results_come_as_a_tuple_in_order(xw):
    x, w = xw
    y, residual_out = dlblas.add_rms_norm(x, w, 2 * x)
    np.testing.assert_array_equal(residual_out, x + 2 * x)
    np.testing.assert_allclose(y, rms(x + 2 * x, w), rtol=1e-5, atol=1e-6)
    out = (np.empty_like(x), np.empty_like(x))
    assert dlblas.add_rms_norm(x, w, 2 * x, out=out) is out
    np.testing.assert_array_equal(out[0], y)
    np.testing.assert_array_equal(out[1], residual_out)


def test_in_place_form_returns_nothing(xw):
    x, w = xw
    y, h = dlblas.add_rms_norm(x, w, 2 * x)
    mine, residual = x.copy(), 2 * x
    assert dlblas.add_rms_norm_(mine, residual, w) is None
    np.testing.assert_array_equal(mine, y)
    np.testing.assert_array_equal(residual, h)


def test_the_in_place_norm_takes_weight_offset_by_place(xw):
    x, w = xw
    y, h = dlblas.add_rms_norm(x, w, 2 * x, 1e-5, weight_offset=1.0)
    mine, residual = x.copy(), 2 * x
    assert dlblas.add_rms_norm_(mine, residual, w, 1e-5, 1.0) is None
    np.testing.assert_array_equal(mine, y)
    np.testing.assert_array_equal(residual, h)


def test_rows_over_another_dimension_say_so():
    signatures = {
        "softmax": "(x, dim=-1, *, out=None, stream=None)",
        "log_softmax": "(x, dim=-1, *, out=None, stream=None)",
        "l2_norm": "(x, eps=1e-12, *, dim=-1, out=None, stream=None)",
    }
    for name, signature in signatures.items():
        call = getattr(dlblas, name)
        assert str(inspect.signature(call)) == signature
        with pytest.raises(dlblas.errors.ArgumentError) as error:
            call(np.ones((2, 3), "f"), axis=1)
        assert "dim, out, stream, got axis; did you mean dim?" in str(error.value)
    with pytest.raises(dlblas.errors.ArgumentError, match="at most 2, got 3"):
        dlblas.softmax(np.ones((2, 3), "f"), 1, 1)
    assert dlblas.softmax(np.ones((2, 3), "f"), 0)[0, 0] == 0.5


def test_builtin_functions_look_like_functions():
    assert list(inspect.signature(dlblas.rms_norm).parameters) == [
        "x", "weight", "eps", "weight_offset", "cast_before_weight", "out", "stream",
    ]  # fmt: skip
    assert inspect.signature(dlblas.rms_norm).parameters["eps"].default == 1e-6
    assert "out" not in inspect.signature(dlblas.add_rms_norm_).parameters
    assert "rsqrt" in dlblas.rms_norm.__doc__
    assert repr(dlblas.rms_norm) == "<built-in function rms_norm>"
    assert dlblas.rms_norm.__module__ == "dlblas"
    assert pickle.loads(pickle.dumps(dlblas.rms_norm)) is dlblas.rms_norm


def test_no_reference_is_kept_or_lost(xw):
    x, w = xw
    y, h = np.empty_like(x), np.empty_like(x)
    out = (y, h)
    held = (x, w, y, h, out, x.dtype, dlblas.add_rms_norm)
    eps = float("1e-5")

    def work():
        for _ in range(200):
            dlblas.add_rms_norm(x, w, x, out=out)
            dlblas.add_rms_norm(x, w, residual=x, eps=eps)
            dlblas.rms_norm(x, w, eps)
            for bad in (
                {"nope": 1},
                {"x": x},
                {"out": (y, y)},
                {"eps": "a"},
                {"weight_offset": []},
            ):
                with pytest.raises(dlblas.Error):
                    dlblas.rms_norm(x, w, **bad)
            with pytest.raises(dlblas.Error):
                dlblas.rms_norm(x, x, out=y)

    work()
    gc.collect()
    before = [sys.getrefcount(o) for o in held]
    work()
    gc.collect()
    assert [sys.getrefcount(o) for o in held] == before


def test_results_are_freed(xw):
    import tracemalloc

    x, w = xw
    dlblas.rms_norm(x, w)
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(2000):
            dlblas.rms_norm(x, w)
        assert tracemalloc.get_traced_memory()[0] < 50 * x.nbytes
    finally:
        tracemalloc.stop()


def test_threads_call_at_once():
    rng = np.random.default_rng(1)
    inputs = [
        rng.standard_normal((64, 512), np.float32) for _ in range(4)
    ]  # 128 KiB: lock released
    w = np.ones(512, np.float32)
    expected = [dlblas.rms_norm(x, w) for x in inputs]
    wrong = []

    def work(i):
        for _ in range(100):
            if not np.array_equal(dlblas.rms_norm(inputs[i], w), expected[i]):
                wrong.append(i)
            try:
                dlblas.rms_norm(inputs[i], w[: 100 + i])
            except dlblas.errors.ShapeMismatchError as error:
                if error.got != str(100 + i):
                    wrong.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_calls_measure_nothing(xw):
    before = dlblas.counters()
    dlblas.rms_norm(*xw)
    after = dlblas.counters()
    assert after["measured"] == before["measured"]
    assert after["compiled"] == before["compiled"]
    assert after["calls"] == before["calls"] + 1
