"""``dlblas.quantize`` and ``dlblas.dequantize``: each granularity is the operator that it names, on
NumPy, on torch, compiled, and without either; what is not offered says so.

The same file runs on a GPU with -m gpu. Read next: ops/quant/api.py, test_quantize.py.
"""

from __future__ import annotations

from typing import Any

import dlblas
import ml_dtypes
import numpy as np
import pytest

WIDTHS = {"group32": 32, "group64": 64, "group128": 128}
GRANULARITIES = ("token", *WIDTHS, "tensor", "channel")
LARGEST = {"f8e4m3": 448.0, "f8e5m2": 57344.0, "i8": 127.0}
DEVICES = [pytest.param("cpu", id="cpu"), pytest.param("cuda", id="cuda", marks=pytest.mark.gpu)]


def scale_shape(shape: tuple[int, ...], granularity: str) -> tuple[int, ...]:
    if granularity == "tensor":
        return ()
    if granularity == "channel":
        return shape[-1:]
    return (*shape[:-1], -(-shape[-1] // WIDTHS.get(granularity, max(1, shape[-1]))))


def spread(scale: Any, shape: tuple[int, ...], granularity: str) -> Any:
    """A scale for each element."""
    if granularity in WIDTHS:
        return np.repeat(scale, WIDTHS[granularity], axis=-1)[..., : shape[-1]]
    return np.broadcast_to(scale, shape)


def largest(x: Any, granularity: str) -> Any:
    """The largest |x| of each part that has a scale."""
    if granularity == "tensor":
        return np.abs(x).max()
    if granularity == "channel":
        return np.abs(x).reshape(-1, x.shape[-1]).max(0)
    starts = np.arange(0, x.shape[-1], WIDTHS.get(granularity, x.shape[-1]))
    return np.maximum.reduceat(np.abs(x), starts, axis=-1)


def made(shape: tuple[int, ...]) -> Any:
    x = np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)
    return x * np.exp2(np.arange(x.size) % 7).astype(np.float32).reshape(shape)


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("dtype", LARGEST)
@pytest.mark.parametrize("shape", [(3, 5, 200), (4, 33), (2, 1), (77,)])
def test_there_and_back(granularity: str, dtype: str, shape: tuple[int, ...]) -> None:
    x = made(shape)
    q, scale = dlblas.quantize(x, granularity, dtype)
    assert q.shape == shape and scale.shape == scale_shape(shape, granularity)
    each = spread(scale, shape, granularity)
    codes = np.asarray(q).astype(np.float32)
    assert (np.asarray(scale) == largest(x, granularity) / np.float32(LARGEST[dtype])).all()
    step = {"f8e4m3": 2.0**-4, "f8e5m2": 2.0**-3, "i8": 0.0}[dtype]
    least = {"f8e4m3": 2.0**-10, "f8e5m2": 2.0**-17, "i8": 0.5}[dtype]
    y = dlblas.dequantize(q, scale)
    assert y.dtype == np.float32 and y.shape == shape
    assert (np.abs(y - x) <= 1.001 * np.maximum(np.abs(x) * step, each * least)).all()
    np.testing.assert_array_equal(y, codes * each)
    for name in ("float16", "bfloat16"):
        narrow = dlblas.dequantize(q, scale, name)
        want = (codes * each).astype(getattr(ml_dtypes, name, name))
        np.testing.assert_array_equal(narrow.astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_a_granularity_is_the_operator_that_it_names(granularity: str) -> None:
    x = made((6, 320))
    q, scale = dlblas.quantize(x, granularity)
    if granularity in WIDTHS:
        wanted = dlblas.quantize_group(x, WIDTHS[granularity])
    elif granularity == "channel":  # a column of it is a row
        rows, scales = dlblas.quantize_token(np.ascontiguousarray(x.T))
        wanted = np.asarray(rows).T.copy(), scales
    else:
        wanted = dlblas.quantize_token(x.reshape(1, -1) if granularity == "tensor" else x)
    assert np.asarray(q).tobytes() == np.asarray(wanted[0]).tobytes()
    assert np.asarray(scale).tobytes() == np.asarray(wanted[1]).tobytes()


@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("shape", [(0, 64), (3, 0), (0,)])
def test_nothing_comes_back_as_nothing(granularity: str, shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    q, scale = dlblas.quantize(x, granularity)
    assert q.shape == shape and np.isfinite(np.asarray(scale)).all()
    assert dlblas.dequantize(q, scale).shape == shape


def test_a_tensor_may_lie_anyhow_and_has_zeros() -> None:
    x = made((40, 30)).T
    q, scale = dlblas.quantize(x, "tensor")
    assert scale == np.abs(x).max() / np.float32(448)
    again, _ = dlblas.quantize(np.ascontiguousarray(x), "tensor")
    assert (np.asarray(q).view(np.uint8) == np.asarray(again).view(np.uint8)).all()
    q, scale = dlblas.quantize(np.zeros((3, 4), np.float32), "tensor")
    assert scale == 1 and not np.asarray(q).astype(np.float32).any()


@pytest.mark.parametrize("granularity", ["block64", "group16", "", None, 128])
def test_what_is_not_offered_says_what_is(granularity: Any) -> None:
    with pytest.raises(dlblas.errors.ArgumentError) as caught:
        dlblas.quantize(np.ones((2, 4), np.float32), granularity)
    error = caught.value
    assert (error.op, error.argument) == ("quantize", "granularity")
    assert all(name in error.expected for name in GRANULARITIES) and error.got == repr(granularity)


@pytest.mark.parametrize("shape", [(128, 256), (130, 100), (1, 300), (257, 129)])
@pytest.mark.parametrize("dtype", LARGEST)
def test_blocks_there_and_back(shape: tuple[int, int], dtype: str) -> None:
    x = made(shape)
    q, scale = dlblas.quantize(x, "block128", dtype)
    across = [np.maximum.reduceat(np.abs(x), np.arange(0, shape[0], 128), axis=0)]
    across.append(np.maximum.reduceat(across[0], np.arange(0, shape[1], 128), axis=1))
    assert (np.asarray(scale) == across[1] / np.float32(LARGEST[dtype])).all()
    each = np.asarray(scale).repeat(128, 0)[: shape[0]].repeat(128, 1)[:, : shape[1]]
    y = dlblas.dequantize(q, scale)
    np.testing.assert_array_equal(y, np.asarray(q).astype(np.float32) * each)


def test_a_scale_that_is_given_is_kept() -> None:
    x = made((5, 96))
    for scale in (0.25, np.float32(0.25).reshape(())):
        q, kept = dlblas.quantize(x, "tensor", "i8", scale=scale)
        assert kept is scale
        np.testing.assert_array_equal(q, np.clip(np.rint(x / 0.25), -128, 127))
    for granularity in ("token", "group64", "channel", "block128"):
        with pytest.raises(dlblas.errors.ArgumentError, match="scale is given") as caught:
            dlblas.quantize(x, granularity, scale=0.25)
        assert caught.value.argument == "scale"


def test_what_does_not_fit_is_refused() -> None:
    x = made((4, 200))
    q, scale = dlblas.quantize(x, "group64")
    for wrong in (scale[:, :3], scale[0, 0].reshape(1, 1).repeat(5, 1), scale[:, :0]):
        with pytest.raises(dlblas.errors.ShapeMismatchError) as caught:
            dlblas.dequantize(q, wrong)
        assert caught.value.argument == "scale"
    with pytest.raises(dlblas.errors.ShapeMismatchError, match="scale"):
        dlblas.dequantize(q, scale[:3])  # rows are the operator's to compare
    for call in (dlblas.quantize, lambda x, _: dlblas.dequantize(x, np.float32(1).reshape(()))):
        with pytest.raises(dlblas.Error):
            call([1.0, 2.0], "tensor")
    with pytest.raises(dlblas.errors.UnsupportedDtypeError):
        dlblas.quantize(x.astype(np.int32), "token")
    with pytest.raises(dlblas.Error, match="dtype"):
        dlblas.quantize(x, "token", "f16")


def test_arrays_without_numpy() -> None:
    x = dlblas.Array((6, 64), "f32")
    np.asarray(x)[...] = made((6, 64))
    for granularity in GRANULARITIES:
        q, scale = dlblas.quantize(x, granularity)
        assert type(q) is dlblas.Array and q.shape == x.shape
        assert scale.shape == scale_shape((6, 64), granularity)
        y = dlblas.dequantize(q, scale)
        np.testing.assert_allclose(np.asarray(y), np.asarray(x), rtol=2.0**-3, atol=0.5)


def test_an_array_is_reshaped_without_a_copy() -> None:
    x = dlblas.Array((6, 4), "f32")
    y = x.reshape((2, -1, 3))
    assert (y.shape, y.dtype, y.data) == ((2, 4, 3), "f32", x.data)
    assert dlblas.Array((0, 4), "i8").reshape((-1,)).shape == (0,)
    for wrong in ((5, -1), (7,), (-2, -12)):
        with pytest.raises(dlblas.errors.ArgumentError, match=r"Array\.reshape: shape"):
            x.reshape(wrong)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("granularity", GRANULARITIES)
@pytest.mark.parametrize("dtype", LARGEST)
def test_in_torch_and_compiled(granularity: str, dtype: str, device: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("dlblas.torch")

    def round_trip(x: Any) -> tuple[Any, Any, Any]:
        q, scale = dlblas.quantize(x * 2, granularity, dtype)
        return q, scale, dlblas.dequantize(q, scale, x.dtype)

    def bits(tensors: Any) -> list[Any]:
        return [t.cpu().contiguous().view(torch.uint8) for t in tensors[:1]] + list(tensors[1:])

    torch._dynamo.reset()
    compiled = torch.compile(round_trip, backend="aot_eager", fullgraph=True, dynamic=True)
    for shape in ((6, 160), (3, 5, 96), (9, 160), (7, 257)):
        x = torch.from_numpy(made(shape)).to(device, torch.bfloat16)
        q, scale, y = eager = round_trip(x)
        assert q.shape == x.shape == y.shape and y.dtype is x.dtype and scale.dtype is torch.float32
        assert tuple(scale.shape) == scale_shape(shape, granularity)
        wanted = dlblas.quantize((x * 2).float().cpu().numpy(), granularity, dtype)
        assert torch.equal(scale.cpu(), torch.from_numpy(np.asarray(wanted[1])))
        for ours, theirs in zip(bits(compiled(x)), bits(eager), strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("granularity", ["channel", "block128", "tensor"])
def test_what_is_dequantised_is_contiguous_and_a_slice_is_not_copied(granularity: str) -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(256, 640)[:, :384]
    q, scale = dlblas.quantize(x, granularity, "i8")
    rows = torch.zeros(256, 640, dtype=torch.int8)[:, :384]
    rows.copy_(q)
    for codes in (q, rows):
        with torch.profiler.profile() as profile:
            y = dlblas.dequantize(codes, scale)
        assert y.is_contiguous() and (y - x).abs().max() < 0.06
        copies = {"aten::copy_", "aten::repeat_interleave", "aten::clone"}
        assert not copies & {event.key for event in profile.key_averages()}
