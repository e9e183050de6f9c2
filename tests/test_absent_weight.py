"""rms_norm and its relatives without a weight: no multiplication; the bits are those of a weight of
ones.

Read next: ops/norm/norm_rows.cpp, ops/norm/rms_norm_backward/rms_norm_backward_cpu.cpp.
"""

from __future__ import annotations

import json
from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas import errors

RNG = np.random.default_rng(3)


def rows(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("width", [1, 64, 131, 4097, 40000])
def test_the_bits_of_ones(width: int) -> None:
    x, residual, ones = rows(2, 3, width), rows(2, 3, width), np.ones(width, np.float32)
    assert np.array_equal(dlblas.rms_norm(x), dlblas.rms_norm(x, ones))
    assert np.array_equal(dlblas.rms_norm(x, None, 0.5), dlblas.rms_norm(x, ones, 0.5))
    got, sums = dlblas.add_rms_norm(x, None, residual), dlblas.add_rms_norm(x, ones, residual)
    assert all(map(np.array_equal, got, sums))
    into, twice = x.copy(), residual.copy()
    dlblas.add_rms_norm_(into, twice, None)
    assert np.array_equal(into, sums[0]) and np.array_equal(twice, sums[1])
    dx, dweight = dlblas.rms_norm_backward(residual, x, None)
    with_ones = dlblas.rms_norm_backward(residual, x, ones)
    assert np.array_equal(dx, with_ones[0]) and np.array_equal(dweight, with_ones[1])
    assert dweight.dtype == np.float32


def test_rows_that_leave_f32_and_any_strides() -> None:
    for x in (1e25 * rows(4, 96), 1e-30 * rows(4, 96), rows(96, 6).T, rows(6, 192)[:, ::2]):
        ones = np.ones(x.shape[-1], np.float32)
        assert np.array_equal(dlblas.rms_norm(x, eps=0.0), dlblas.rms_norm(x, ones, 0.0))
        assert dlblas.verify("rms_norm", (x,), out=dlblas.rms_norm(x)).ok
        gradients = dlblas.rms_norm_backward(x, x)
        assert dlblas.verify("rms_norm_backward", (x, x), out=gradients).ok


def test_an_offset_needs_a_weight() -> None:
    x = rows(4, 8)
    with pytest.raises(errors.ArgumentError, match="weight_offset has no weight") as told:
        dlblas.rms_norm(x, weight_offset=1.0)
    assert told.value.argument == "weight_offset"
    with pytest.raises(errors.ArgumentError, match="rms_norm_backward: weight_offset"):
        dlblas.rms_norm_backward(x, x, weight_offset=1.0)


def test_explained_listed_and_searched() -> None:
    x = rows(4, 64)
    assert "weight absent" in str(dlblas.explain("rms_norm", x))
    assert "weight f32" in str(dlblas.explain("rms_norm", x, np.ones(64, np.float32)))
    report = dlblas.tune("rms_norm", (x,), seconds=1, implementations="cpu_baseline")
    assert report.winner is not None


def test_a_missed_key_comes_back(tmp_path: Any) -> None:
    from dlblas import _missed

    file = tmp_path / "missed.jsonl"
    tensors = "x:f32:contiguous:16 weight:absent y:f32:contiguous:16"
    file.write_text(
        json.dumps({"op": "rms_norm", "dims": "T=4 C=64", "tensors": tensors, "scalars": ""}) + "\n"
    )
    ((form, named),) = _missed.problems(str(file), "cpu")
    assert form == "rms_norm" and "weight" not in named


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_in_torch_with_gradients(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    kind = getattr(torch, dtype)
    x = torch.randn(5, 64, dtype=kind, requires_grad=True)
    y = dlblas.rms_norm(x)
    (dx,) = torch.autograd.grad(y.square().sum(), x)
    theirs = torch.nn.functional.rms_norm(x, (64,), eps=1e-6)
    (wanted,) = torch.autograd.grad(theirs.square().sum(), x)
    torch.testing.assert_close(y, theirs)
    torch.testing.assert_close(dx, wanted, rtol=2e-2, atol=2e-2)
    assert torch.equal(torch.ops.dlblas.rms_norm(x.detach()), y)
    torch.library.opcheck(torch.ops.dlblas.rms_norm.default, (x,))
    torch.library.opcheck(torch.ops.dlblas.add_rms_norm.default, (x, None, x.detach()))
    graph = torch.compile(lambda x: dlblas.rms_norm(x), fullgraph=True, backend="aot_eager")
    assert torch.equal(graph(x), y)


def test_modules_hold_nothing() -> None:
    torch = pytest.importorskip("torch")
    norm = dlblas.nn.RMSNorm(64, elementwise_affine=False)
    assert not list(norm.parameters()) and not list(norm.buffers())
    x = torch.randn(3, 64)
    wide = dlblas.nn.RMSNorm(64)
    assert torch.equal(norm(x), wide(x)) and torch.equal(norm(x, x)[0], wide(x, x)[0])


def test_users_functions_were_written_for_a_weight() -> None:
    def always(x: Any, weight: Any, eps: Any, weight_offset: Any, y: Any) -> None:
        y[...] = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * (weight + weight_offset)

    def either(x: Any, eps: Any, weight_offset: Any, y: Any, weight: Any = None) -> None:
        gain = 1 if weight is None else weight + weight_offset
        y[...] = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * gain

    text = "__global__ void f(own::y* y, const own::x* x, const own::weight* w) {}"
    dlblas.register("rms_norm", "always", always)
    dlblas.register("rms_norm", "either", either)
    dlblas.register("rms_norm", "text", text, grid="T")
    try:
        x = rows(4, 64)
        told = {
            c["implementation"]: c for c in dlblas.explain("rms_norm", x).as_dict()["candidates"]
        }
        assert not told["always"]["supports"] and "needs weight" in told["always"]["reason"]
        assert told["either"]["supports"]
        gpu = dlblas.explain("rms_norm", x, device="sm_90a").as_dict()["candidates"]
        (row,) = (c for c in gpu if c["implementation"] == "text")
        assert not row["supports"] and "weight is absent" in row["reason"]
        with dlblas.pinned("rms_norm", "either"):
            np.testing.assert_allclose(dlblas.rms_norm(x), either_of(x), rtol=1e-5)
        with_weight = dlblas.explain("rms_norm", x, np.ones(64, np.float32)).as_dict()
        there = {c["implementation"]: c["supports"] for c in with_weight["candidates"]}
        assert there["always"] and there["either"]
    finally:
        for name in ("always", "either", "text"):
            dlblas.unregister("rms_norm", name)


def either_of(x: Any) -> Any:
    return x / np.sqrt((x.astype("d") ** 2).mean(-1, keepdims=True) + 1e-6)
