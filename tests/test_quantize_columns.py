"""``dlblas.quantize`` with power-of-two scales, and with column-major scales as the tensor memory
accelerator reads them: values, strides, NumPy and torch, compiled; what is refused.

The same file runs on a GPU with -m gpu. Read next: ops/quant/api.py, ops/common/quant_scale.hpp.
"""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np
import pytest

LARGEST = {"f8e4m3": 448.0, "f8e5m2": 57344.0, "i8": 127.0}
GRANULARITIES = ("token", "group32", "group64", "group128", "block128", "tensor", "channel")
COLUMNS = GRANULARITIES[:5]
DEVICES = [pytest.param("cpu", id="cpu"), pytest.param("cuda", id="cuda", marks=pytest.mark.gpu)]


def made(shape: tuple[int, ...]) -> Any:
    x = np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)
    return x * np.exp2(np.arange(x.size) % 7).astype(np.float32).reshape(shape)


def bits(array: Any) -> Any:
    return np.ascontiguousarray(np.asarray(array)).view(np.uint8)


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("dtype", LARGEST)
def test_powers_are_the_next_that_are_no_less(granularity: str, dtype: str) -> None:
    x = made((260, 300))
    _, plain = dlblas.quantize(x, granularity, dtype)
    q, scale = dlblas.quantize(x, granularity, dtype, scale_dtype="ue8m0")
    plain, power = np.asarray(plain), np.asarray(scale)
    assert power.dtype == np.float32 and power.shape == plain.shape
    mantissa, _ = np.frexp(power)
    assert (mantissa == 0.5).all() and (power >= plain).all() and (power < 2 * plain).all()
    y = dlblas.dequantize(q, scale)
    step = {"f8e4m3": 2.0**-4, "f8e5m2": 2.0**-3, "i8": 0.0}[dtype]
    least = {"f8e4m3": 2.0**-10, "f8e5m2": 2.0**-17, "i8": 0.5}[dtype]
    each = np.abs(x) * step
    if granularity in ("token", "tensor", "channel"):
        each = np.maximum(each, np.broadcast_to(power, x.shape) * least)
        assert (np.abs(y - x) <= 1.001 * each).all()
    assert np.abs(np.asarray(q).astype(np.float32)).max() <= LARGEST[dtype]


@pytest.mark.parametrize("dtype", LARGEST)
def test_a_scale_at_a_power_stays_and_one_above_it_doubles(dtype: str) -> None:
    largest = np.float32(LARGEST[dtype])
    powers = np.exp2(np.arange(-120, 100, 7)).astype(np.float32)
    x = np.concatenate([largest * powers, np.nextafter(largest * powers, np.inf), [0, 1e-44]])
    _, scale = dlblas.quantize(x.astype(np.float32)[:, None], "token", dtype, scale_dtype="ue8m0")
    want = np.concatenate([powers, 2 * powers, [1, 2.0**-126]])
    np.testing.assert_array_equal(np.asarray(scale)[:, 0], want)
    x = np.array([[np.nan], [np.inf], [-np.inf]], np.float32)
    _, scale = dlblas.quantize(x, "token", dtype, scale_dtype="ue8m0")
    assert np.isnan(np.asarray(scale)[0]).all() and np.isinf(np.asarray(scale)[1:]).all()


def strides_of(array: Any) -> tuple[int, ...]:
    if hasattr(array, "stride"):
        return tuple(array.stride())
    return tuple(s // array.itemsize for s in array.strides)


@pytest.mark.parametrize("granularity", COLUMNS)
@pytest.mark.parametrize("scale_dtype", ["f32", "ue8m0"])
@pytest.mark.parametrize("shape", [(6, 640), (5, 100), (257, 300), (1, 256), (3, 7, 384)])
def test_columns_hold_the_same_scales(
    granularity: str, shape: tuple[int, ...], scale_dtype: str
) -> None:
    if granularity == "block128" and len(shape) != 2:
        return
    x = made(shape)
    rows = dlblas.quantize(x, granularity, scale_dtype=scale_dtype)
    columns = dlblas.quantize(
        x, granularity, scale_dtype=scale_dtype, scale_layout="column_major_tma"
    )
    for ours, theirs in zip(columns, rows, strict=True):
        assert ours.shape == theirs.shape and (bits(ours) == bits(theirs)).all()
    count = int(np.prod(columns[1].shape[:-1]))
    strides = strides_of(columns[1])
    assert count == 1 or strides[-2] == 1
    assert columns[1].shape[-1] == 1 or strides[-1] == -(-count // 4) * 4
    assert columns[1].ctypes.data % 4 == 0
    y = dlblas.dequantize(*columns)
    np.testing.assert_array_equal(y, dlblas.dequantize(*rows))


@pytest.mark.parametrize("shape", [(0, 256), (4, 0)])
def test_nothing_has_no_columns(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    q, scale = dlblas.quantize(x, "group128", scale_layout="column_major_tma")
    assert q.shape == shape and scale.shape == (shape[0], shape[1] // 128)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("granularity", COLUMNS)
def test_in_torch_and_compiled(granularity: str, device: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("dlblas.torch")

    def columns(x: Any) -> tuple[Any, Any]:
        q, scale = dlblas.quantize(
            2 * x, granularity, torch.float8_e4m3fn, None, "ue8m0", "column_major_tma"
        )
        return q, scale

    torch._dynamo.reset()
    compiled = torch.compile(columns, backend="aot_eager", fullgraph=True, dynamic=True)
    for rows, width in ((6, 256), (131, 384), (9, 260)):
        x = torch.from_numpy(made((rows, width))).to(device, torch.bfloat16)
        q, scale = columns(x)
        wanted = dlblas.quantize(2 * x, granularity, scale_dtype="ue8m0")
        count = scale.shape[0]
        assert scale.shape == wanted[1].shape and scale.data_ptr() % 16 == 0
        assert count == 1 or scale.stride(0) == 1
        assert scale.shape[1] == 1 or scale.stride(1) == -(-count // 4) * 4
        assert torch.equal(scale, wanted[1])
        assert torch.equal(q.view(torch.uint8), wanted[0].view(torch.uint8))
        again = compiled(x)
        assert torch.equal(again[1], scale)
        assert torch.equal(again[0].view(torch.uint8), q.view(torch.uint8))


def test_what_is_refused() -> None:
    x = made((4, 256))
    for granularity in ("tensor", "channel"):
        with pytest.raises(dlblas.errors.ArgumentError, match="scale_layout") as caught:
            dlblas.quantize(x, granularity, scale_layout="column_major_tma")
        assert caught.value.argument == "scale_layout" and caught.value.expected == "'row'"
    with pytest.raises(dlblas.errors.ArgumentError, match="scale_layout"):
        dlblas.quantize(x, "token", scale_layout="columns")
    with pytest.raises(dlblas.errors.ArgumentError, match="scale_dtype"):
        dlblas.quantize(x, "tensor", scale=0.5, scale_dtype="ue8m0")
    with pytest.raises(dlblas.Error, match="scale_dtype"):
        dlblas.quantize(x, "token", scale_dtype="f16")


def test_an_own_array_has_columns_too() -> None:
    x = made((2, 3, 256))
    array = dlblas.Array((2, 3, 256), "f32")
    np.asarray(array)[...] = x
    for granularity in ("group32", "group128"):
        _, scale = dlblas.quantize(array, granularity, scale_layout="column_major_tma")
        _, want = dlblas.quantize(x, granularity, scale_layout="column_major_tma")
        assert isinstance(scale, dlblas.Array)
        np.testing.assert_array_equal(np.asarray(scale), want)
        assert np.asarray(scale).strides == want.strides
