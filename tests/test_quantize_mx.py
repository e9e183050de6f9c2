"""Microscaling formats: codes by hand and by ml_dtypes, values that come back, special blocks, the
public functions on NumPy and torch, compiled; what is not offered is refused in words.

The same file runs on a GPU with -m gpu. Read next: ops/quant/mx_ref.hpp, ops/quant/api.py.
"""

from __future__ import annotations

from typing import Any

import dlblas
import ml_dtypes
import numpy as np
import pytest

VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
E2M1 = np.concatenate([VALUES, -VALUES])
DEVICES = [pytest.param("cpu", id="cpu"), pytest.param("cuda", id="cuda", marks=pytest.mark.gpu)]
FORMATS = ("mxfp8", "mxfp4", "nvfp4")


def halves(q: Any) -> Any:
    """The 4-bit codes of packed bytes, in order."""
    bytes_ = np.asarray(q).view(np.uint8)
    return np.stack([bytes_ & 15, bytes_ >> 4], -1).reshape(*bytes_.shape[:-1], -1)


def made(rows: int, width: int, seed: int = 1) -> Any:
    x = np.random.default_rng(seed).standard_normal((rows, width)).astype(np.float32)
    return x * np.exp2(np.arange(x.size) % 11 - 5).astype(np.float32).reshape(x.shape)


def test_codes_by_hand() -> None:
    x = np.zeros((1, 32), np.float32)
    # The largest value and 6 have exponent 2, so the scale is 2^(2 - 2). Ties go to the even code;
    # values beyond 6 saturate.
    x[0, :16] = [6, 7.9, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, -5.01, -0.25, -0.26, 0.2, 1, -6, 3]
    q, scale = dlblas.quantize_mxfp4(x)
    assert np.asarray(scale).view(np.uint8).tolist() == [[127]]
    want = [6, 6, 0, 1, 1, 2, 2, 4, 4, -6, -0.0, -0.5, 0, 1, -6, 3]
    got = E2M1[halves(q)[0, :16]]
    assert got.tolist() == want and np.signbit(got[10])
    assert np.asarray(q).view(np.uint8)[0, 0] == 0x77  # the first code is in the low half
    q, scale = dlblas.quantize_mxfp4(8 * x)
    assert np.asarray(scale).view(np.uint8).tolist() == [[130]]
    assert E2M1[halves(q)[0, :16]].tolist() == want


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
def test_as_ml_dtypes_rounds(kind: str) -> None:
    x = made(5, 96).astype(getattr(ml_dtypes, kind, kind)).astype(np.float32)
    blocks = x.reshape(5, 3, 32)
    amax = np.abs(blocks).max(-1)
    narrow = x.astype(getattr(ml_dtypes, kind, kind))
    for name, top, dtype in (
        ("mxfp8", 8, ml_dtypes.float8_e4m3fn),
        ("mxfp4", 2, ml_dtypes.float4_e2m1fn),
    ):
        power = np.exp2(np.floor(np.log2(amax)) - top)
        q, scale = dlblas.quantize_mx(narrow, name)
        assert (np.asarray(scale).astype(np.float32) == power).all()
        largest = 448 if top == 8 else 6
        want = np.clip(blocks / power[..., None], -largest, largest).astype(dtype)
        codes = np.asarray(q).astype(np.float32) if top == 8 else E2M1[halves(q)]
        assert (codes.reshape(blocks.shape) == want.astype(np.float32)).all()


def test_nvfp4_step_by_step() -> None:
    x = made(4, 64, seed=3)
    q, scale, whole = dlblas.quantize_mx(x, "nvfp4")
    assert np.float32(whole) == np.float32(np.abs(x).max() / np.float32(448)) / np.float32(6)
    blocks = x.reshape(4, 4, 16)
    wanted = np.abs(blocks).max(-1) / (np.float32(6) * np.float32(whole))
    steps = np.minimum(wanted, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert (np.asarray(scale).astype(np.float32) == steps).all() and steps.max() == 448
    factor = np.float32(1) / (steps * np.float32(whole))
    want = np.clip(blocks * factor[..., None], -6, 6).astype(ml_dtypes.float4_e2m1fn)
    assert (E2M1[halves(q)].reshape(blocks.shape) == want.astype(np.float32)).all()
    y = dlblas.dequantize_mx(q, scale, "nvfp4", whole)
    each = (want.astype(np.float32) * steps[..., None]) * np.float32(whole)
    np.testing.assert_array_equal(y, each.reshape(4, 64))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("width", [2, 48, 64, 258])
def test_there_and_back(format: str, width: int) -> None:
    x = made(6, width)
    q, scale, *whole = dlblas.quantize_mx(x, format)
    group, step = (16, 2.0**-2) if format == "nvfp4" else (32, 2.0**-2)
    if format == "mxfp8":
        step = 2.0**-4
    y = dlblas.dequantize_mx(q, scale, format, *whole)
    assert y.shape == x.shape and y.dtype == np.float32
    starts = np.arange(0, width, group)
    amax = np.repeat(np.maximum.reduceat(np.abs(x), starts, axis=-1), group, -1)[..., :width]
    # Bounds: half a step of a normal number, the smallest step of a block, and saturation.
    saturated = {"mxfp8": 0.125, "mxfp4": 0.25, "nvfp4": 0.07}[format]
    least = {"mxfp8": 2.0**-17, "mxfp4": 2.0**-3, "nvfp4": 2.0**-3}[format]
    error = np.abs(y - x)
    top = np.abs(x) > (1 - saturated) * amax
    assert (error <= np.maximum(np.abs(x) * step, amax * least))[~top].all()
    assert (error <= amax * saturated + amax * step)[top].all()
    for name in ("float16", "bfloat16"):
        narrow = dlblas.dequantize_mx(q, scale, format, *whole, out_dtype=name)
        want = y.astype(getattr(ml_dtypes, name, name)).astype(np.float32)
        np.testing.assert_array_equal(np.asarray(narrow).astype(np.float32), want)


@pytest.mark.parametrize("format", FORMATS)
def test_special_blocks(format: str) -> None:
    x = made(6, 64)
    x[0], x[1, 5], x[2, 40] = 0, np.nan, np.inf
    x[3] *= np.float32(2.0**-140)
    whole = (np.float32(0.01),) if format == "nvfp4" else ()
    q, scale, *_ = dlblas.quantize_mx(x, format, *whole)
    y = dlblas.dequantize_mx(q, scale, format, *whole)
    assert np.isfinite(np.asarray(scale).astype(np.float32)[0]).all() and (y[0] == 0).all()
    group = 16 if format == "nvfp4" else 32
    block = slice(0, group)
    assert np.isnan(y[1, block]).all() and np.isfinite(y[1, group:]).all()
    if format == "nvfp4":
        assert y[2, 40] == 6 * 448 * np.float32(0.01)
    else:
        assert np.isnan(y[2, 32:]).all() and np.isfinite(y[2, :32]).all()
    assert (np.abs(y[3] - x[3]) <= 2.0**-127).all() and np.isfinite(y[4:]).all()


@pytest.mark.parametrize("format", ["mxfp8", "mxfp4"])
def test_another_bit_is_refused(format: str) -> None:
    x = made(4, 96)
    op = f"quantize_{format}"
    q, scale = (np.asarray(r) for r in getattr(dlblas, op)(x))
    assert dlblas.verify(op, (x,), (q, scale)).ok
    for array in (q, scale):
        other = array.copy()
        other.view(np.uint8)[2, 1] ^= 1
        given = (other, scale) if array is q else (q, other)
        assert dlblas.verify(op, (x,), given).wrong == 1


def test_what_is_not_offered_says_so() -> None:
    x = made(2, 64)
    for call in (lambda f: dlblas.quantize_mx(x, f), lambda f: dlblas.dequantize_mx(x, x, f)):
        with pytest.raises(dlblas.errors.ArgumentError, match="format is not offered") as caught:
            call("mxfp6")
        assert caught.value.argument == "format" and "nvfp4" in caught.value.expected
    with pytest.raises(dlblas.errors.ArgumentError, match="global_scale is given"):
        dlblas.quantize_mx(x, "mxfp8", 1.0)
    q, scale, _ = dlblas.quantize_mx(x, "nvfp4")
    with pytest.raises(dlblas.errors.ArgumentError, match="global_scale is missing"):
        dlblas.dequantize_mx(q, scale, "nvfp4")
    with pytest.raises(dlblas.errors.ShapeMismatchError):
        dlblas.quantize_mx(x[:, :63], "mxfp4")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("format", FORMATS)
def test_in_torch_and_compiled(format: str, device: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("dlblas.torch")

    def bits(t: Any) -> Any:
        return t.cpu().contiguous().view(torch.uint8).numpy()

    def round_trip(x: Any) -> tuple[Any, ...]:
        parts = dlblas.quantize_mx(x * 2, format)
        y = dlblas.dequantize_mx(parts[0], parts[1], format, *parts[2:], out_dtype=x.dtype)
        return (*parts, y)

    for rows, width in ((6, 160), (3, 258)):
        x = torch.from_numpy(made(rows, width)).to(device, torch.bfloat16)
        eager = round_trip(x)
        # Pass the same global scale to both: torch's division on a GPU may round it otherwise.
        whole = [t.cpu().numpy() for t in eager[2:-1]]
        wanted = round_trip_numpy((x * 2).float().cpu().numpy(), format, *whole)
        for ours, theirs in zip(eager[:2], wanted, strict=True):
            assert (bits(ours) == np.asarray(theirs).view(np.uint8)).all()
        assert eager[1].dtype is (
            torch.float8_e4m3fn if format == "nvfp4" else torch.float8_e8m0fnu
        )
        if format != "mxfp8":
            assert eager[0].dtype is torch.uint8
            packed = eager[0].view(torch.float4_e2m1fn_x2)
            again = dlblas.dequantize_mx(packed, eager[1], format, *eager[2:-1], out_dtype=x.dtype)
            assert torch.equal(again, eager[-1])
        assert eager[-1].dtype is torch.bfloat16 and eager[-1].shape == x.shape
        torch._dynamo.reset()
        compiled = torch.compile(round_trip, backend="aot_eager", fullgraph=True)
        for ours, theirs in zip(compiled(x), eager, strict=True):
            assert (bits(ours.reshape(-1)) == bits(theirs.reshape(-1))).all()


def round_trip_numpy(x: Any, format: str, *whole: Any) -> tuple[Any, ...]:
    return dlblas.quantize_mx(x, format, *whole)[:2]


@pytest.mark.parametrize("format", FORMATS)
def test_opcheck(format: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("dlblas.torch")
    x = torch.from_numpy(made(3, 64))
    whole = (torch.tensor(0.01),) if format == "nvfp4" else ()
    quantise = getattr(torch.ops.dlblas, f"quantize_{format}")
    q, scale = quantise(x, *whole)
    back = getattr(torch.ops.dlblas, f"dequantize_{format}")
    checks = ("test_faketensor", "test_autograd_registration")  # torch multiplies no f8
    for call, arguments in ((quantise, (x, *whole)), (back, (q, scale, *whole))):
        result = torch.library.opcheck(call, arguments, test_utils=checks)
        assert set(result.values()) == {"SUCCESS"}
