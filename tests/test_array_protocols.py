"""Array producers that describe something impossible: each is refused by name before its memory is
read.

One of each kind; a fuzzer draws millions (tests/fuzz/calls_arrays.py). Read next:
python/dlblas/_hooks.py, bindings/python/array.cpp.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

import dlblas
import numpy as np
import pytest

pytestmark = pytest.mark.attack("hostile array protocols, by hand")

X = np.arange(32, dtype="f").reshape(4, 8)
W = np.ones(8, "f")
EXPECTED = dlblas.rms_norm(X, W)


class Interface:
    def __init__(self, **changes: Any) -> None:
        self.__array_interface__ = {**X.__array_interface__, **changes}


class Exporter:
    """Returns what it holds in place of a capsule."""

    def __init__(self, made: Any, device: Any = (1, 0)) -> None:
        self.made, self.device = made, device

    def __dlpack__(self, **options: Any) -> Any:
        if isinstance(self.made, Exception):
            raise self.made
        return self.made

    def __dlpack_device__(self) -> Any:
        return self.device


class Refuses:
    """Raises on every access, including str() and repr()."""

    def _raise(self, *_: Any) -> Any:
        raise ZeroDivisionError

    __index__ = __bool__ = __len__ = __iter__ = __str__ = __repr__ = _raise


def refused(producer: Any, words: str, kind: type[dlblas.Error] = dlblas.errors.ArgumentError):
    for call in (
        lambda: dlblas.rms_norm(producer, W),
        lambda: dlblas.rms_norm(x=producer, weight=W),
        lambda: dlblas.explain("rms_norm", producer, W),
        lambda: dlblas.reference("rms_norm", (producer, W)),
    ):
        with pytest.raises(kind, match=f"^rms_norm: x {words}.*; expected .*got "):
            call()


@pytest.mark.parametrize(
    "typestr", ["<f32", "<f4000", "<f0", "<f36", "<f", "", "<i2", ">f4", "|f4", "<f\u0664", "f4"]
)
def test_types_are_of_the_table_or_refused(typestr: str) -> None:
    """<f32 once wrapped to 0 bits, which became a divisor; <f36 once wrapped to the bits of <f4."""
    refused(Interface(typestr=typestr), "has a dtype", dlblas.errors.UnsupportedDtypeError)


@pytest.mark.parametrize(
    "changes",
    [
        *({"typestr": value} for value in (None, b"<f4", 4, Refuses())),
        *({"shape": value} for value in (3, None, "48", {4, 8}, (10**30, 8), (-1, 8), (4, 8.0))),
        *({"shape": value} for value in ((Refuses(), 8), itertools.count(), range(2))),
        *({"strides": value} for value in ((4,), (32, 4, 4), "ab", 3, (32.0, 4.0), (2**63, 4))),
        *({"strides": value} for value in ((Refuses(), 4), [None, None], Refuses())),
        *({"data": value} for value in ((-1, False), (2**64, False), (1,), [1, False], None)),
        *({"data": value} for value in ((X.ctypes.data, Refuses()), (Refuses(), False), b"data")),
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_entries_of_the_wrong_kind_or_range(changes: dict[str, Any]) -> None:
    refused(Interface(**changes), "has an incomplete __array_interface__")


def test_entries_that_numpy_takes_are_taken() -> None:
    address = X.ctypes.data
    for changes in (
        {"strides": [32, 4]}, {"strides": None}, {"shape": [4, 8]}, {"mask": None},
        {"data": (address, np.False_)}, {"data": (np.uint64(address), 0)}, {"version": "x"},
        {"shape": (np.int64(4), 8)}, {"descr": 5},
    ):  # fmt: skip
        np.testing.assert_array_equal(dlblas.rms_norm(Interface(**changes), W), EXPECTED)


def test_numpy_scalars_keep_their_memory() -> None:
    """A scalar's __array_interface__ describes memory that nothing keeps; two scalars of a call
    described the same."""
    a, b = np.ones((1, 2, 4), np.int8), np.ones((1, 4, 3), np.int8)
    draw = np.random.default_rng(1)
    for _ in range(50):
        scales = np.float32(draw.random()), np.float32(draw.random())
        got = dlblas.batched_scaled_mm(a, b, *scales, out_dtype="f32")
        rows = dlblas.reference("batched_scaled_mm", (a, b, *scales), {"out_dtype": "f32"})
        right = 4 * np.float64(scales[0] * scales[1])
        np.testing.assert_allclose(got, right, rtol=1e-6)
        np.testing.assert_allclose(rows[0].value, right, rtol=1e-12)
    place = np.float32(7)
    with pytest.raises(dlblas.errors.ArgumentError, match=r"out .*read-only"):
        dlblas.rms_norm(X[0, :1], W[:1], out=place)


def test_memory_that_cannot_be() -> None:
    kind = dlblas.errors.ShapeMismatchError
    for strides in ((2**62, 4), (-(2**62), 4), (32, -(2**61))):
        refused(Interface(strides=strides), "has elements beyond the address space", kind)
    for address in (2**64 - 1, 2**64 - 64, 2**63):
        refused(Interface(data=(address, False)), "has elements beyond the address space", kind)
    refused(Interface(shape=(2**62, 8)), "has too many elements", kind)
    refused(Interface(mask=X), "is a masked array")


@pytest.mark.parametrize(
    "made",
    [None, 3, "dltensor", [1], object(), (1, 2), ()],
    ids=["none", "int", "text", "list", "object", "pair", "empty"],
)
def test_what_is_no_capsule(made: Any) -> None:
    refused(Exporter(made), "has a __dlpack__ that returned no fresh capsule")


def test_producers_that_raise_or_are_no_producers() -> None:
    class UntoldError(Exception):
        def __str__(self) -> str:
            raise ZeroDivisionError

    for made in (ZeroDivisionError("mine"), KeyError(1), AttributeError(), UntoldError()):
        refused(Exporter(made), "cannot be exported by DLPack")
    for device in (None, 1, (), object()):
        refused(Exporter(X.__dlpack__(), device), "cannot be exported by DLPack")
    for raised in (ZeroDivisionError, UntoldError):

        class Property:
            @property
            def __array_interface__(self, raised: Any = raised) -> Any:
                raise raised

        refused(Property(), "has an incomplete __array_interface__")
    for interface in (None, 3, "x", [("shape", 1)], Refuses()):
        refused(type("Odd", (), {"__array_interface__": interface})(), "has an incomplete")
        refused(type("Odd", (), {"__cuda_array_interface__": interface})(), "has an incomplete")
    cuda = {**X.__array_interface__, "stream": Refuses()}
    refused(type("Odd", (), {"__cuda_array_interface__": cuda})(), "has an incomplete")


def test_a_class_that_says_it_is_another() -> None:
    """`__class__` can claim any class, and the object behind it lacks that class's layout."""
    for known in (dlblas.Spec, np.ndarray, dlblas.Array, tuple, int):
        lie = {"__class__": property(lambda self, known=known: known), "_exchange": (1, 2)}
        refused(type("Lying", (), lie)(), "is not an array")


def test_subclasses_of_ndarray_are_read_by_their_memory() -> None:
    lies = {"__array_interface__": {"data": 1}, "dtype": None, "shape": (9, 9), "strides": None}
    lying = X.view(type("Lying", (np.ndarray,), lies))
    np.testing.assert_array_equal(dlblas.rms_norm(lying, W), EXPECTED)


def test_a_host_address_of_the_cuda_interface() -> None:
    """It was once read as CPU memory, wherever it pointed."""
    interface = {**X.__array_interface__, "version": 3}
    kind = dlblas.errors.DeviceError
    refused(
        type("Host", (), {"__cuda_array_interface__": interface})(),
        "is not in memory of a CUDA device", kind,
    )  # fmt: skip


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64),
    )  # fmt: skip


class Managed(ctypes.Structure):
    _fields_ = (("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


@pytest.mark.parametrize(
    "change, words, kind",
    [
        ({"ndim": -(2**31)}, "has a negative number of dimensions", "ShapeMismatchError"),
        ({"ndim": -1}, "has a negative number of dimensions", "ShapeMismatchError"),
        ({"ndim": 9}, "has too many dimensions", "ShapeMismatchError"),
        ({"shape": None}, "has no shape", "ShapeMismatchError"),
        ({"lanes": 2}, "has a vector dtype", "UnsupportedDtypeError"),
        ({"bits": 0}, "has a dtype", "UnsupportedDtypeError"),
        ({"code": 200}, "has a dtype", "UnsupportedDtypeError"),
        ({"data": None}, "has no memory", "ArgumentError"),
        ({"device": (257, 0)}, "is on DLPack device type 257:0", "DeviceError"),
        ({"device": (2, 65536)}, "is on DLPack device type 2:65536", "DeviceError"),
        ({"offset": 2**64 - 8}, "has elements beyond", "ShapeMismatchError"),
    ],
)
def test_fields_of_a_capsule(change: dict[str, Any], words: str, kind: str) -> None:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    name = ctypes.c_char_p(b"dltensor")
    shape = (ctypes.c_int64 * 2)(4, 8)
    tensor = DLTensor(X.ctypes.data, (1, 0), 2, 2, 32, 1, ctypes.addressof(shape))
    managed = Managed(tensor)
    capsule = new(ctypes.addressof(managed), name, None)
    np.testing.assert_array_equal(dlblas.rms_norm(Exporter(capsule), W), EXPECTED)
    np.testing.assert_array_equal(dlblas.rms_norm(Exporter(capsule), W), EXPECTED)  # fresh again
    for field, value in change.items():
        if field == "device":
            value = (ctypes.c_int32 * 2)(*value)
        setattr(managed.tensor, field, value)
    refused(Exporter(capsule), words, getattr(dlblas.errors, kind))


def test_a_capsule_is_the_calls_own_meanwhile() -> None:
    """A later argument's producer cannot take an earlier argument's memory away."""
    capsule = X.copy().__dlpack__()
    taken = []

    class Thief:
        def __dlpack__(self, **_: Any) -> Any:
            try:
                taken.append(np.from_dlpack(Exporter(capsule)))
            except ValueError as error:
                taken.append(error)
            return W.__dlpack__()

        __dlpack_device__ = W.__dlpack_device__

    np.testing.assert_array_equal(dlblas.rms_norm(Exporter(capsule), Thief()), EXPECTED)
    assert isinstance(taken[0], ValueError)
    np.testing.assert_array_equal(np.from_dlpack(Exporter(capsule)), X)  # and gives it back
    refused(Exporter(capsule), "has a __dlpack__ that returned no fresh capsule")


def test_arrays_that_change_between_question_and_answer() -> None:
    """reference() first reads the arguments to size its results; they must not change
    afterwards."""
    asked = []

    class Growing:
        @property
        def __array_interface__(self) -> Any:
            asked.append(self)  # twice by a reader: is it there, and what is it
            return {**X.__array_interface__, "shape": (1, 8) if len(asked) < 3 else (4, 8)}

    with pytest.raises(dlblas.errors.ShapeMismatchError, match="args changed meanwhile"):
        dlblas.reference("rms_norm", (Growing(), W))


def test_where_an_own_array_lies_is_not_to_be_set() -> None:
    array = dlblas.Array((2, 8), "f32")
    for name in ("shape", "data", "dtype"):
        with pytest.raises(AttributeError):
            setattr(array, name, getattr(array, name))
    for shape in ((-1,), (2**40, 2**40), "ab", 3):
        with pytest.raises(dlblas.errors.ArgumentError, match=r"^Array: shape is malformed"):
            dlblas.Array(shape, "f32")


@pytest.mark.parametrize("stream", [-1, 2**64, 10**40])
def test_streams_are_addresses(stream: int) -> None:
    with pytest.raises(dlblas.errors.ArgumentError, match="stream is out of range"):
        dlblas.rms_norm(X, W, stream=stream)


OWN = """
#include <dlblas/dlblas.h>
int dlblas_own(void) { %s }
"""


@pytest.mark.parametrize(
    "body, words",
    [
        ("return 77;", "got 77 without words"),
        ('dlblas_fail("no such card"); return 77;', r"got 77 \(no such card\)"),
        ("return 4;", "got 4 without words"),
        ("return -1;", "got -1 without words"),
    ],
)
def test_a_shared_object_that_fails_without_words(body: str, words: str, tmp_path: Any) -> None:
    source, made = tmp_path / "own.c", tmp_path / "own.so"
    source.write_text(OWN % body)
    include = str(pathlib.Path(__file__).resolve().parent.parent / "include")
    command = ["cc", "-shared", "-fPIC", f"-I{include}", str(source), "-o", str(made)]
    subprocess.run(command, check=True, timeout=240)
    with pytest.raises(dlblas.errors.ArgumentError):
        dlblas.rms_norm(3, W)  # words of before, which are not its own
    with pytest.raises(dlblas.errors.ArgumentError, match=f"load: path holds.*{words}"):
        dlblas.own.load(made)


def test_none_of_it_ends_the_process() -> None:
    """The four that once ended the process, in a process of their own."""
    program = (
        "import dlblas, numpy as np\n"
        "x, w = np.ones((4, 8), 'f'), np.ones(8, 'f')\n"
        "class P: __dlpack__ = lambda s, **k: None; __dlpack_device__ = lambda s: (1, 0)\n"
        "class I:\n"
        "    def __init__(s, t): s.__array_interface__ = {**x.__array_interface__, 'typestr': t}\n"
        "for bad in (P(), I('<f32'), I('<f4000'), I('<f0')):\n"
        "    try: dlblas.rms_norm(bad, w)\n"
        "    except dlblas.Error as error: print(type(error).__name__)\n"
    )
    path = str(pathlib.Path(dlblas.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["ArgumentError", *["UnsupportedDtypeError"] * 3]


class AsksDLPack:
    """Its value is the result of a call on itself."""

    def __dlpack__(self, **options: Any) -> Any:
        return dlblas.rms_norm(self, W).__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class AsksInterface:
    @property
    def __array_interface__(self) -> Any:
        return dlblas.rms_norm(self, W).__array_interface__


@pytest.mark.parametrize("kind", [AsksDLPack, AsksInterface])
def test_an_array_that_asks_for_itself_is_refused_soon(kind: Any) -> None:
    begin = time.perf_counter()
    with pytest.raises(dlblas.errors.ArgumentError) as refused:
        dlblas.rms_norm(kind(), W)
    assert time.perf_counter() - begin < 5 and len(str(refused.value)) < 1000
