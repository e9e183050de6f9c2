"""``dlblas.quantize`` and ``dlblas.dequantize``: each granularity calls the operator that it names,
on NumPy, on torch, compiled, and without either; what is not offered is refused in words.

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
    """The scale of each element."""
    if granularity in WIDTHS:
        return np.repeat(scale, WIDTHS[granularity], axis=-1)[..., : shape[-1]]
    return np.broadcast_to(scale, shape)


def largest(x: Any, granularity: str) -> Any:
    """The largest |x| of each part that has its own scale."""
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
        with pytest.raises(dlblas.errors.ShapeMismatchError, match="scale has another") as caught:
            dlblas.quantize(x, granularity, scale=0.25)
        assert caught.value.argument == "scale"


def test_a_number_beyond_f32_is_an_infinite_scale() -> None:
    torch = pytest.importorskip("torch")
    q, _ = dlblas.quantize(torch.ones(2, 4), "token")
    for number, infinite in ((1e308, float("inf")), (-(2**200), float("-inf"))):
        assert (dlblas.dequantize(q, number) == infinite).all()


@pytest.mark.parametrize("dtype", LARGEST)
@pytest.mark.parametrize("shape", [(6, 320), (2, 3, 40), (77,), (1,), (3, 0), (0, 5)])
def test_what_a_given_scale_gave_comes_back(shape: tuple[int, ...], dtype: str) -> None:
    """For a scale given as a number, or as one element in any form that quantize takes."""
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    want = None
    for scale in (0.5, np.float32(0.5), np.full((), 0.5, "f"), np.full((1,), 0.5, "f")):
        q, given = dlblas.quantize(x, "tensor", dtype, scale)
        assert given is scale
        y = dlblas.dequantize(q, given)
        assert y.shape == shape
        want = np.asarray(q).astype(np.float32) / 2 if want is None else want
        np.testing.assert_array_equal(y, want)
    whole = dlblas.quantize(x, "tensor", dtype, 1)  # an integer
    np.testing.assert_array_equal(
        dlblas.dequantize(*whole), np.asarray(whole[0]).astype(np.float32)
    )
    torch = pytest.importorskip("torch")
    t = torch.from_numpy(x)
    for scale in (0.5, torch.tensor(0.5), torch.tensor([0.5])):
        y = dlblas.dequantize(*dlblas.quantize(t, "tensor", dtype, scale))
        assert torch.equal(y, torch.from_numpy(want))


def test_a_number_for_a_scale_of_what_is_no_array() -> None:
    for q in (None, [1], "ab"):
        with pytest.raises(dlblas.errors.ArgumentTypeError, match="q is no array"):
            dlblas.dequantize(q, 0.5)
    for scale in (None, "a", [0.5], True):
        with pytest.raises(dlblas.errors.ArgumentTypeError, match="scale is no array"):
            dlblas.dequantize(np.ones((2, 3), np.int8), scale)
    q = dlblas.Array((2, 3), "i8")
    assert dlblas.dequantize(q, 0.5).shape == (2, 3)


def places_that_do_not_fit() -> list[tuple[Any, str]]:
    frozen = np.empty((), np.float32)
    frozen.flags.writeable = False
    return [
        (np.empty((), np.int32), r"out\[1\] \(scale\) has dtype i32; expected f32, got i32"),
        (np.empty((), np.float64), r"out\[1\] \(scale\) has dtype f64; expected f32"),
        (np.empty((3,), np.float32), r"out\[1\] \(scale\) has another shape; expected \(\)"),
        (frozen, r"out\[1\] \(scale\) is read-only"),
        ("foo", r"out\[1\] \(scale\) is no array to write to; .* got str"),
        (7.5, r"out\[1\] \(scale\) is no array to write to; .* got float"),
    ]


@pytest.mark.parametrize(("place", "words"), places_that_do_not_fit())
def test_a_place_that_does_not_fit_a_given_scale(place: Any, words: str) -> None:
    """The scale is neither converted nor broadcast, and no code is written before the refusal."""
    x, weight = np.ones((4, 128), np.float32), np.ones(128, np.float32)
    wide = np.ones((4, 256), np.float32)
    hidden = np.zeros((4, 128), np.float32)
    for dtype, call in (
        ("i8", lambda q: dlblas.quantize(x, "tensor", "i8", 2.5, out=(q, place))),
        ("i8", lambda q: dlblas.silu_and_mul_quant(
            wide, "tensor", dtype="i8", scale=2.5, out=(q, place))),
        ("f8", lambda q: dlblas.rms_norm_quant(
            x, weight, granularity="tensor", scale=2.5, out=(q, place))),
        ("f8", lambda q: dlblas.add_rms_norm_quant(
            x, weight, x, granularity="tensor", scale=2.5, out=(q, place, hidden))),
    ):  # fmt: skip
        q = np.zeros((4, 128), np.int8)
        with pytest.raises(dlblas.errors.Error, match=words) as caught:
            call(q if dtype == "i8" else q.view(ml_dtypes.float8_e4m3fn))
        assert caught.value.argument == "out[1]" and not q.any() and not hidden.any()


def test_results_that_are_too_few_or_too_many() -> None:
    x, weight = np.ones((4, 128), np.float32), np.ones(128, np.float32)
    q, place = np.zeros((4, 128), np.int8), np.empty((), np.float32)
    f8 = q.view(ml_dtypes.float8_e4m3fn)
    for out, got in (((q,), "1"), ((q, place, place), "3"), ([q, place], "1"), ((), "0")):
        words = rf"quantize: out has the wrong number .*expected 2 \(q, scale\), got {got}"
        with pytest.raises(dlblas.errors.ArgumentError, match=words):
            dlblas.quantize(x, "tensor", "i8", 2.5, out=out)
    with pytest.raises(dlblas.errors.ArgumentError, match=r"rms_norm_quant: out .*expected 2"):
        dlblas.rms_norm_quant(x, weight, granularity="tensor", scale=1.0, out=(f8,))
    for out in ((f8, place), f8):
        words = r"add_rms_norm_quant: out .*expected 3 \(q, scale, residual_out\)"
        with pytest.raises(dlblas.errors.ArgumentError, match=words):
            dlblas.add_rms_norm_quant(x, weight, x, granularity="tensor", scale=1.0, out=out)
    assert not q.any()


@pytest.mark.parametrize("device", DEVICES)
def test_where_a_given_scale_is_copied(device: str) -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(4, 128, device=device)
    for scale in (2.5, torch.tensor(2.5, device=device), torch.tensor([2.5], device=device)):
        for shape in ((), (1,)):
            q = torch.zeros(4, 128, dtype=torch.int8, device=device)
            place = torch.zeros(shape, device=device)
            made = dlblas.quantize(x, "tensor", "i8", scale, out=(q, place))
            assert made[0] is q and made[1] is place
            assert place.shape == shape and place.item() == 2.5 and q.any()
    q = torch.zeros(4, 128, dtype=torch.int8, device=device)
    for place, words in (
        (torch.empty((), device="meta"), "is on meta"),
        (torch.empty((), device=device, requires_grad=True), "requires grad"),
        (torch.empty((), device=device).to_sparse(), "is not a dense tensor"),
    ):
        with pytest.raises(dlblas.errors.Error, match=words):
            dlblas.quantize(x, "tensor", "i8", 2.5, out=(q, place))
    assert not q.any()
    numpy = np.zeros((), np.float32), torch.tensor(2.5)
    if device == "cpu":  # of two packages
        dlblas.quantize(x, "tensor", "i8", numpy[1], out=(q, numpy[0]))
        assert numpy[0] == 2.5
        dlblas.quantize(x, "tensor", "i8", np.full((), 0.5, "f"), out=(q, torch.zeros(())))
    array = dlblas.Array((1,), "f32")
    dlblas.quantize(x.cpu(), "tensor", "i8", 2.5, out=(q.cpu(), array))
    assert np.asarray(array) == 2.5
    for place in (np.zeros((), np.float32), torch.zeros(()), dlblas.Array((), "f32")):
        dlblas.quantize(x.cpu(), "tensor", "i8", array, out=(q.cpu(), place))
        assert np.asarray(place) == 2.5
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x, out: dlblas.quantize(x, "tensor", "i8", 2.5, out=out),
        backend="aot_eager", fullgraph=True,
    )  # fmt: skip
    place, again = torch.zeros((), device=device), torch.zeros_like(q)
    compiled(x, (again, place))
    assert place.item() == 2.5
    assert torch.equal(again, dlblas.quantize(x, "tensor", "i8", 2.5)[0])


@pytest.mark.parametrize("dtype", ["x", 3, [], "f16"])
@pytest.mark.parametrize("shape, granularity", [((4, 64), "group32"), ((2, 3, 64), "block128")])
@pytest.mark.parametrize("layout", ["row", "column_major_tma"])
def test_a_dtype_that_is_not_offered(
    shape: tuple[int, ...], granularity: str, layout: str, dtype: Any
) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(dlblas.Error, match="dtype ") as refused:
        dlblas.quantize(torch.randn(shape), granularity, dtype, scale_layout=layout)
    assert refused.value.argument == "dtype"


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


SHAPES = {
    "token": (6, 200),
    "group32": (2, 3, 200),
    "group64": (6, 200),
    "group128": (6, 200),
    "channel": (6, 200),
    "block128": (130, 200),
}


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", ["f8e4m3", "f8e5m2", "i8"])
@pytest.mark.parametrize("granularity", SHAPES)
def test_scales_that_are_given(granularity: str, dtype: str, kind: str) -> None:
    x = np.random.default_rng(3).standard_normal(SHAPES[granularity]).astype("f")
    q, scale = (np.asarray(t) for t in dlblas.quantize(x, granularity, dtype, scale_dtype="ue8m0"))
    given = scale.copy()  # powers of two: x / scale is exact
    if kind == "torch":
        torch = pytest.importorskip("torch")
        x, given = torch.from_numpy(x), torch.from_numpy(given)
    codes, same = dlblas.quantize(x, granularity, dtype, given)
    assert same is given
    bits = codes.view(torch.uint8).numpy() if kind == "torch" else np.asarray(codes).view("u1")
    np.testing.assert_array_equal(bits, q.view("u1"))
    place = torch.empty_like(codes) if kind == "torch" else np.empty_like(codes)
    copy = torch.empty_like(given) if kind == "torch" else np.empty_like(given)
    out = place, copy
    assert dlblas.quantize(x, granularity, dtype, given, out=out) is out
    bits = place.view(torch.uint8).numpy() if kind == "torch" else place.view("u1")
    np.testing.assert_array_equal(bits, q.view("u1"))
    np.testing.assert_array_equal(np.asarray(copy), scale)
    for wrong, words in (
        (given[..., :0], "scale has another shape"),
        (2.0, "scale"),
        (given > 0, "scale"),
    ):
        with pytest.raises(dlblas.errors.Error, match=words):
            dlblas.quantize(x, granularity, dtype, wrong)
    with pytest.raises(dlblas.errors.ArgumentError, match="scale_layout is"):
        dlblas.quantize(x, granularity, dtype, given, scale_layout="column_major_tma")
    with pytest.raises(dlblas.errors.Error, match="out overlaps x"):
        dlblas.quantize(
            x,
            granularity,
            dtype,
            given,
            out=(
                place,
                x.reshape(-1)[: given.size if kind == "numpy" else given.numel()].reshape(
                    given.shape
                ),
            ),
        )


@pytest.mark.parametrize("layout", ["row", "column_major_tma"])
@pytest.mark.parametrize(
    "sizes", [(3, 256, 200), (3, 130, 200), (2, 2, 100, 300), (0, 130, 64), (3, 1, 129)], ids=str
)
def test_blocks_of_several_matrices(sizes: tuple[int, ...], layout: str) -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(sizes, generator=torch.Generator().manual_seed(1))
    for w in (x, x.transpose(0, -3).contiguous().transpose(0, -3), x.numpy()):
        q, scale = dlblas.quantize(w, "block128", scale_layout=layout)
        q, scale = (
            (
                torch.from_numpy(np.asarray(t).view("u1") if i == 0 else np.asarray(t))
                for i, t in enumerate((q, scale))
            )
            if w is not x and not hasattr(w, "new_empty")
            else (q.view(torch.uint8), scale)
        )
        *lead, rows, width = sizes
        assert tuple(scale.shape) == (*lead, -(-rows // 128), -(-width // 128))
        for at in np.ndindex(*lead):
            codes, found = dlblas.quantize(x[at], "block128")
            assert torch.equal(q[at], codes.view(torch.uint8)) and torch.equal(scale[at], found)
        y = dlblas.dequantize(q.view(torch.float8_e4m3fn), scale)
        for at in np.ndindex(*lead):
            assert torch.equal(y[at], dlblas.dequantize(q[at].view(torch.float8_e4m3fn), scale[at]))
    out = torch.empty_like(q).view(torch.float8_e4m3fn), torch.full_like(scale, 7)
    assert dlblas.quantize(x, "block128", out=out) is out
    assert torch.equal(out[0].view(torch.uint8), q) and torch.equal(out[1], scale)
    to = torch.empty(sizes)
    assert dlblas.dequantize(*out, out=to) is to and torch.equal(to, y)
    with pytest.raises(dlblas.errors.ShapeMismatchError, match="scale"):
        dlblas.quantize(x, "block128", out=(out[0], torch.empty(3, 3)))
    with pytest.raises(dlblas.errors.Error, match="dtype"):
        dlblas.quantize(x, "block128", "f64")


def test_blocks_of_weights_in_a_grouped_product_and_compiled() -> None:
    torch = pytest.importorskip("torch")
    w, x = torch.randn(3, 130, 256), torch.randn(9, 256)
    offsets = torch.tensor([0, 4, 6, 9])
    codes, scale = dlblas.quantize(w, "block128")
    of_x, steps = dlblas.quantize(x, "group128")
    y = dlblas.grouped_gemm(of_x, codes, offsets, a_scale=steps, b_scale=scale)
    back, rows = dlblas.dequantize(codes, scale), dlblas.dequantize(of_x, steps)
    for e, (first, last) in enumerate(((0, 4), (4, 6), (6, 9))):
        torch.testing.assert_close(
            y[first:last].float(), rows[first:last] @ back[e].T, rtol=1e-2, atol=1e-2
        )
    for rows in (130, 256):
        w = torch.randn(3, rows, 64)
        made = torch.compile(
            lambda w: dlblas.quantize(w, "block128"), backend="aot_eager", fullgraph=True
        )(w)
        for got, wanted in zip(made, dlblas.quantize(w, "block128"), strict=True):
            assert torch.equal(got.view(torch.uint8), wanted.view(torch.uint8))
    told = dlblas.explain("quantize", w, "block128", device="sm_90a").as_dict()
    assert told["op"] == "quantize_block128" and told["implementation"].startswith("cu")
