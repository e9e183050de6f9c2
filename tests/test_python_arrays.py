"""What Python callers may pass as a tensor, and what they get back.

NumPy (all layouts, ml_dtypes), torch, DLPack and array-interface producers.
Read next: bindings/python/array.cpp.
"""

from __future__ import annotations

import dlblas
import ml_dtypes
import numpy as np
import pytest

RNG = np.random.default_rng(3)


def expect(x, w):
    x = np.asarray(x, np.float64)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * np.asarray(w, np.float64)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_result_has_the_dtype_of_x(dtype):
    x = RNG.standard_normal((4, 64)).astype(dtype)
    w = np.ones(64, np.float32)
    y = dlblas.rms_norm(x, w)
    assert type(y) is np.ndarray
    assert y.dtype == x.dtype
    np.testing.assert_allclose(y.astype(np.float64), expect(x, w), rtol=1e-2, atol=1e-2)


LAYOUTS = {
    "contiguous": lambda x: x,
    "sliced rows": lambda x: np.repeat(x, 2, 0)[::2],
    "row stride": lambda x: np.concatenate([x, x], -1)[:, : x.shape[1]],
    "negative rows": lambda x: x[::-1],
    "negative columns": lambda x: x[:, ::-1],
    "transposed": lambda x: np.asfortranarray(x),
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "leading dimensions": lambda x: x.reshape(2, 1, 3, -1),
    "one row": lambda x: x[0],
    "misaligned": lambda x: (
        np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(x.dtype).reshape(x.shape)
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_numpy_layouts(layout):
    x = LAYOUTS[layout](RNG.standard_normal((6, 40), np.float32))
    w = RNG.standard_normal(40, np.float32)
    np.testing.assert_allclose(dlblas.rms_norm(x, w), expect(x, w), rtol=1e-5, atol=1e-5)


def test_no_rows_at_all():
    y = dlblas.rms_norm(np.empty((0, 8), np.float32), np.ones(8, np.float32))
    assert y.shape == (0, 8)


def test_masked_arrays_are_refused():
    x = np.ma.masked_array(RNG.standard_normal((3, 16), np.float32), mask=False)
    with pytest.raises(dlblas.errors.ArgumentError, match=r"x is a masked array.*filled\(value\)"):
        dlblas.rms_norm(x, np.ones(16, np.float32))


def test_subclasses_of_ndarray_are_read():
    class Named(np.ndarray):
        pass

    x = RNG.standard_normal((3, 16), np.float32)
    w = np.ones(16, np.float32)
    np.testing.assert_array_equal(dlblas.rms_norm(x.view(Named), w), dlblas.rms_norm(x, w))


def test_read_only_arrays_are_inputs_and_not_outputs():
    x = RNG.standard_normal((3, 16), np.float32)
    w = np.ones(16, np.float32)
    frozen = x.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(dlblas.rms_norm(frozen, w), dlblas.rms_norm(x, w))
    for call in (
        lambda: dlblas.rms_norm(x, w, out=frozen),
        lambda: dlblas.add_rms_norm_(frozen, x.copy(), w),
    ):
        with pytest.raises(
            dlblas.errors.ArgumentError, match="is read-only; expected a writable array"
        ):
            call()
    np.testing.assert_array_equal(frozen, x)


@pytest.mark.parametrize(
    "bad, text",
    [
        (lambda x: x.astype(object), "object"),
        (lambda x: x.astype(x.dtype.newbyteorder()), "not native byte order"),
        (lambda x: x.astype(complex), "complex128"),
        (lambda x: x.astype("U4"), "<U"),
    ],
)
def test_dtypes_that_cannot_be_read(bad, text):
    x = RNG.standard_normal((3, 16), np.float32)
    with pytest.raises(dlblas.errors.UnsupportedDtypeError, match=text) as caught:
        dlblas.rms_norm(bad(x), np.ones(16, np.float32))
    assert caught.value.tensor_name == "x"
    assert isinstance(caught.value, TypeError)


def test_strides_between_elements_are_refused():
    fields = np.zeros(16, [("a", np.uint8), ("b", np.float32)])
    with pytest.raises(dlblas.errors.ArgumentError, match="not a multiple of its item size"):
        dlblas.rms_norm(fields["b"], np.ones(16, np.float32))


def test_too_many_dimensions():
    words = "x has too many dimensions; expected at most 8, got 9"
    with pytest.raises(dlblas.errors.ShapeMismatchError, match=words):
        dlblas.rms_norm(np.zeros((1,) * 8 + (4,), np.float32), np.ones(4, np.float32))


@pytest.mark.parametrize("bad", [[1.0, 2.0], 3.0, "x", object(), {}])
def test_what_is_no_array(bad):
    with pytest.raises(dlblas.errors.ArgumentError, match="rms_norm: x is not a"):
        dlblas.rms_norm(bad, np.ones(2, np.float32))


class Exporter:
    """DLPack only, in the old or the new protocol."""

    def __init__(self, array, versioned):
        self.array, self.versioned, self.asked = array, versioned, []

    def __dlpack__(self, **kwargs):
        self.asked.append(kwargs)
        if kwargs and not self.versioned:
            raise TypeError("old protocol")
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("versioned", [False, True])
def test_dlpack_producers(versioned):
    import sys

    x = np.asfortranarray(RNG.standard_normal((4, 24), np.float32))
    w = np.ones(24, np.float32)
    producer = Exporter(x, versioned)
    before = sys.getrefcount(x)
    y = dlblas.rms_norm(producer, w)
    np.testing.assert_array_equal(y, dlblas.rms_norm(x, w))
    assert isinstance(y, np.ndarray)
    assert sys.getrefcount(x) == before  # the capsule's own deleter ran
    assert producer.asked[0] == {"max_version": (1, 0)}
    out = np.empty_like(x)
    wrapped = Exporter(out, versioned)
    assert dlblas.rms_norm(x, w, out=wrapped) is wrapped
    np.testing.assert_array_equal(out, y)


def test_array_interface_producers():
    class Interface:
        def __init__(self, array):
            self.array = array

        @property
        def __array_interface__(self):
            return self.array.__array_interface__

    x = RNG.standard_normal((4, 24), np.float32)
    w = np.ones(24, np.float32)
    np.testing.assert_array_equal(
        dlblas.rms_norm(Interface(x[::-1]), w), dlblas.rms_norm(x[::-1], w)
    )
    frozen = x.copy()
    frozen.flags.writeable = False
    with pytest.raises(dlblas.errors.ArgumentError, match="out is read-only"):
        dlblas.rms_norm(x, w, out=Interface(frozen))


class Interface:
    """The array interface only, with some of its entries replaced."""

    def __init__(self, array, **changes):
        self.__array_interface__ = {**array.__array_interface__, **changes}


@pytest.mark.parametrize(
    "change, words",
    [
        ({"data": None}, "has an incomplete __array_interface__; expected shape, typestr and data"),
        ({"data": b"bytes"}, "has an incomplete __array_interface__"),
        ({"data": ("here", False)}, "has an incomplete __array_interface__"),
        ({"shape": 3}, "has an incomplete __array_interface__"),
        ({"data": (0, False)}, "has no memory; expected the address .*, got address 0"),
    ],
)
def test_array_interfaces_that_cannot_be_read(change, words):
    x = RNG.standard_normal((4, 24), np.float32)
    with pytest.raises(dlblas.errors.ArgumentError, match=f"rms_norm: x {words}"):
        dlblas.rms_norm(Interface(x, **change), np.ones(24, np.float32))


def test_array_interfaces_with_entries_missing_or_odd():
    x = Interface(RNG.standard_normal((4, 24), np.float32))
    w = np.ones(24, np.float32)
    del x.__array_interface__["data"]
    with pytest.raises(dlblas.errors.ArgumentError, match=r"got KeyError\('data'\)"):
        dlblas.rms_norm(x, w)
    for typestr in ("", "<f", "|O", ">f4"):
        x = Interface(w, typestr=typestr)
        with pytest.raises(dlblas.errors.UnsupportedDtypeError, match="cannot read"):
            dlblas.rms_norm(x, w)


def test_an_empty_array_needs_no_address():
    empty = np.empty((0, 24), np.float32)
    y = dlblas.rms_norm(Interface(empty, data=(0, False)), np.ones(24, np.float32))
    assert y.shape == (0, 24)


def test_results_follow_the_first_tensor_of_the_schema():
    torch = pytest.importorskip("torch")
    x, w = RNG.standard_normal((4, 24), np.float32), torch.ones(24)
    for y in (dlblas.rms_norm(x, w), dlblas.rms_norm(weight=w, x=x)):
        assert isinstance(y, np.ndarray)
    for y in (dlblas.rms_norm(w, x[0]), dlblas.rms_norm(weight=x[0], x=w)):
        assert isinstance(y, torch.Tensor)


def test_arrays_are_read_alike_without_the_known_layout():
    """If NumPy's array layout cannot be verified, arrays go through the array interface."""
    from dlblas import _hooks

    x = np.asfortranarray(RNG.standard_normal((4, 24), np.float32))[::-1]
    address, code, bits, shape, strides, read_only = _hooks.exchange(
        x, "op", "x", False, True, None
    )
    assert (address, code, bits, shape, read_only) == (x.ctypes.data, 2, 32, (4, 24), False)
    assert strides == x.strides
    assert _hooks.exchange(x.astype(ml_dtypes.bfloat16), "op", "x", False, True, None)[1:3] == (
        4,
        16,
    )
    with pytest.raises(dlblas.errors.UnsupportedDtypeError, match="not native byte order"):
        _hooks.exchange(x.astype(">f4"), "op", "x", False, True, None)


def test_results_go_back_through_the_callers_namespace():
    class Mine:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **kwargs):
            return self.array.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

        def __array_namespace__(self):
            class Namespace:
                @staticmethod
                def from_dlpack(array):
                    return Mine(np.from_dlpack(array))

            return Namespace

    x = RNG.standard_normal((4, 24), np.float32)
    w = np.ones(24, np.float32)
    y = dlblas.rms_norm(Mine(x), w)
    assert isinstance(y, Mine)
    np.testing.assert_array_equal(y.array, dlblas.rms_norm(x, w))


def test_own_array_type():
    x = dlblas.Array((2, 8), "f32")
    view = np.asarray(x)
    view[:] = RNG.standard_normal((2, 8))
    y = dlblas.rms_norm(x, dlblas.Array((8,), "f32"), weight_offset=1)
    assert isinstance(y, dlblas.Array)
    assert (y.shape, y.dtype, y.data % 64) == ((2, 8), "f32", 0)
    np.testing.assert_allclose(np.from_dlpack(y), expect(view, np.ones(8)), rtol=1e-5, atol=1e-6)


def test_specs_stand_for_arrays_where_no_data_is_read():
    x = dlblas.Spec((8, 64), "bfloat16", strides=(128, 1))
    assert x.dtype == "bf16"
    assert dlblas.explain("rms_norm", x, dlblas.Spec((64,), np.float32)).as_dict()["implementation"]
    with pytest.raises(dlblas.errors.ArgumentError, match=r"x is a dlblas\.Spec"):
        dlblas.rms_norm(x, np.ones(64, np.float32))
    with pytest.raises(dlblas.errors.ArgumentError, match="dtype is unknown"):
        dlblas.Spec((8,), "f99")
    for shape in ((2.5,), ("a",), (2**63,), 5):
        with pytest.raises(dlblas.errors.ArgumentError, match="Spec: shape is malformed"):
            dlblas.Spec(shape, "f32")
    with pytest.raises(dlblas.errors.ArgumentError, match="Spec: strides is malformed"):
        dlblas.Spec((8,), "f32", (2**62,))  # as bytes beyond 64 bits
    assert dlblas.Spec(np.array([2, 3]), "f32").shape == (2, 3)


class TestTorch:
    @pytest.fixture(autouse=True)
    def _torch(self):
        self.torch = pytest.importorskip("torch")

    @pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
    def test_tensors_in_tensors_out(self, dtype):
        torch = self.torch
        x = torch.randn(6, 48).to(getattr(torch, dtype))
        w = torch.ones(48)
        y = dlblas.rms_norm(x, w)
        assert isinstance(y, torch.Tensor)
        assert y.dtype == x.dtype
        np.testing.assert_allclose(
            y.double().numpy(), expect(x.double().numpy(), w.numpy()), rtol=1e-2, atol=1e-2
        )

    def test_out_and_in_place(self):
        torch = self.torch
        x, w = torch.randn(6, 48), torch.ones(48)
        y = torch.empty_like(x)
        assert dlblas.rms_norm(x, w, out=y) is y
        assert torch.equal(y, dlblas.rms_norm(x, w))
        mine, residual = x.clone(), x.clone()
        dlblas.add_rms_norm_(mine, residual, w)
        assert torch.equal(residual, x + x)

    def test_strided_views(self):
        torch = self.torch
        x = torch.randn(6, 96)[:, :48]
        w = torch.ones(48)
        assert torch.equal(dlblas.rms_norm(x, w), dlblas.rms_norm(x.contiguous(), w))

    def test_lazy_views_are_inputs_and_not_outputs(self):
        """A view with the negative bit holds negated values in memory."""
        torch = self.torch
        x, w = torch.randn(4, 8, dtype=torch.complex64).conj().imag, torch.ones(8)
        assert x.is_neg()
        expected = dlblas.rms_norm(x.clone(), w)
        assert torch.equal(dlblas.rms_norm(x, w), expected)
        assert torch.equal(dlblas.rms_norm(x.resolve_neg(), w), expected)
        before = x.clone()
        for call in (
            lambda: dlblas.rms_norm(w.expand(4, 8), w, out=x),
            lambda: dlblas.add_rms_norm_(x, torch.ones(4, 8), w),
        ):
            with pytest.raises(dlblas.errors.ArgumentError, match="is a lazy negative or conj"):
                call()
        assert torch.equal(x, before)
        with pytest.raises(dlblas.errors.ArgumentError, match="is a lazy negative or conjugate"):
            dlblas.rms_norm(w, w, out=torch.ones(8, dtype=torch.complex64).conj())

    def test_autograd_notices_what_is_written(self):
        torch = self.torch
        x, w = torch.randn(4, 8), torch.ones(8)
        y, residual = torch.empty(4, 8), torch.randn(4, 8)
        versions = [t._version for t in (x, w, y, residual)]
        dlblas.rms_norm(x, w, out=y)
        assert [t._version for t in (x, w, y)] == [versions[0], versions[1], versions[2] + 1]
        dlblas.add_rms_norm_(x, residual, w)
        assert (x._version, residual._version) == (versions[0] + 1, versions[3] + 1)
        dlblas.explain("add_rms_norm_", x, residual, w)  # which writes nothing
        assert x._version == versions[0] + 1

        leaf = torch.randn(4, 8, requires_grad=True)
        saved = torch.randn(4, 8)
        product = (leaf * saved).sum()
        dlblas.rms_norm(x, w, out=saved)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.backward()
        with torch.inference_mode():
            dlblas.rms_norm(x, w, out=torch.empty(4, 8))


def of(array):
    made = dlblas.Array(array.shape, str(array.dtype).replace("float", "f").replace("int", "i"))
    np.asarray(made)[...] = array
    return made


@pytest.mark.parametrize(
    "key",
    [0, -1, (0, 1), (Ellipsis, 1), (slice(None, None, -1), 2), (None, 0), slice(1, 1), (0, 1, 2),
     (Ellipsis, None), (slice(None), slice(0, 3, 2), None, slice(3, 0, -1)), Ellipsis, ()],
)  # fmt: skip
def test_parts_of_an_own_array_are_views(key):
    x = RNG.standard_normal((2, 3, 4)).astype("f")
    own = of(x)
    part = own[key]
    assert isinstance(part, dlblas.Array) and np.may_share_memory(*map(np.asarray, (own, own)))
    for got in (np.asarray(part), np.from_dlpack(part), np.asarray(part.reshape((-1,)))):
        np.testing.assert_array_equal(got.reshape(x[key].shape), x[key])
    assert np.may_share_memory(np.asarray(part), np.asarray(own)) or 0 in part.shape
    own[key] = of(2 * np.asarray(x[key], "f"))
    x[key] = 2 * x[key]
    np.testing.assert_array_equal(np.asarray(own), x)


@pytest.mark.parametrize("seed", range(40))
def test_an_own_array_is_reshaped_as_numpys(seed):
    """For transposed and sliced arrays: a view where NumPy makes a view, otherwise a copy."""
    rng = np.random.default_rng(seed)
    x = draw(*rng.integers(1, 5, rng.integers(1, 5)))
    own = of(x)
    x = np.asarray(own)
    for _ in range(2):
        i, j = rng.integers(0, x.ndim, 2)
        cut = tuple(slice(None, None, (1, 1, -1, 2)[k]) for k in rng.integers(0, 4, x.ndim))
        x, own = x.swapaxes(i, j)[cut], own.swapaxes(int(i), int(j))[cut]
    flat = x.size
    for shape in {(-1,), (1, flat, 1), (2, flat // 2) if flat % 2 == 0 else (flat,),
                  (x.shape[0], flat // x.shape[0]), (*x.shape[:-1], 1, x.shape[-1])}:  # fmt: skip
        got, want = np.asarray(own.reshape(shape)), x.reshape(shape)
        np.testing.assert_array_equal(got, want)
        assert np.may_share_memory(got, x) == np.may_share_memory(want, x)


def test_what_is_no_part_of_an_own_array():
    own = dlblas.Array((2, 3), "f32")
    for key in (2, -3, (0, 0, 0)):
        with pytest.raises(IndexError):
            own[key]
    for value in (1.0, np.ones(3, "f"), dlblas.Array((2,), "f32"), dlblas.Array((3,), "f16")):
        with pytest.raises(dlblas.errors.ArgumentError, match="Array: value does not fit"):
            own[0] = value
    assert len(list(own)) == 2  # iteration ends


def test_operators_read_and_write_turned_own_arrays():
    x = RNG.standard_normal((4, 3, 8)).astype("f")
    own, w = of(x), of(np.ones(8, "f"))
    y = dlblas.rms_norm(own.swapaxes(0, 1)[::-1], w)
    assert isinstance(y, dlblas.Array) and y.shape == (3, 4, 8)
    np.testing.assert_allclose(
        np.asarray(y), expect(x.swapaxes(0, 1)[::-1], np.ones(8)), rtol=1e-5, atol=1e-6
    )
    place = dlblas.Array((4, 3, 2, 8), "f32")
    np.asarray(place)[...] = 0
    dlblas.rms_norm(own, w, out=place[:, :, 1])
    np.testing.assert_array_equal(np.asarray(place)[:, :, 0], 0)
    np.testing.assert_allclose(
        np.asarray(place)[:, :, 1], expect(x, np.ones(8)), rtol=1e-5, atol=1e-6
    )


def draw(*shape):
    return RNG.standard_normal(shape).astype("f")


FUNCTIONS = {
    "group_norm": lambda f, x: f(x(2, 8, 3), 4, x(8), x(8)),
    "layernorm_gated": lambda f, x: f(x(3, 8), x(8), x(8), x(3, 8), 1e-6, 4),
    "fused_rmsnorm_rope": lambda f, x: f(x(2, 3, 16), x(16), x(3, 1, 4), x(3, 1, 4), 1e-6, 2),
    "partial_rotary_emb": lambda f, x: f(
        x(2, 3, 4, 24), x(2, 3, 1, 8), x(2, 3, 4, 28), x(3, 8), x(3, 4)
    ),
    "apply_rotary_pos_emb": lambda f, x: f(x(2, 3, 4, 8), x(2, 3, 2, 8), x(3, 8), x(3, 8)),
    "halves": lambda f, x: dlblas.apply_rotary_pos_emb(
        x(2, 3, 4, 8), x(2, 3, 2, 8), x(3, 4), x(3, 4), x(2, 3, 4, 8)
    ),
    "fused_rotary_emb": lambda f, x: f(x(2, 3, 4, 8), x(2, 3, 2, 8), x(1, 3, to=5), x(4)),
    "mrope": lambda f, x: f(x(3, 4, 8), x(3, 2, 8), x(3, 3, to=5), x(5, 8), (1, 1, 2)),
    "rope": lambda f, x: f(x(2, 3, 4, 8), x(2, 3, 2, 8), x(2, 3, to=5), x(5, 8), rotary_dim=8),
    "fused_rotary_and_fa": lambda f, x: f(
        x(2, 3, 4, 8), x(2, 3, 2, 8), x(2, 3, 2, 8), x(3, 4), x(3, 4)
    ),
    "softmax": lambda f, x: f(x(3, 5), dim=0),
    "bmm": lambda f, x: f(x(2, 3, 8), x(2, 8, 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_take_own_arrays(name):
    """The same results as for NumPy, on dlblas.Array, the result type where there is no NumPy."""
    made = []

    def array(*shape, to=0):
        made.append(RNG.integers(0, to, shape) if to else draw(*shape))
        return made[-1]

    function = getattr(dlblas, name, None)
    want = FUNCTIONS[name](function, array)
    again = iter(made)
    got = FUNCTIONS[name](function, lambda *shape, to=0: of(next(again)))
    if not isinstance(want, tuple):
        got, want = (got,), (want,)
    for x, y in zip(got, want, strict=True):
        assert isinstance(x, dlblas.Array)
        np.testing.assert_array_equal(np.asarray(x), y)


def test_a_loss_needs_arithmetic():
    with pytest.raises(
        dlblas.errors.ArgumentTypeError, match=r"target has no arithmetic; .* Array"
    ):
        dlblas.cross_entropy(of(draw(3, 8)), of(np.arange(3)))
