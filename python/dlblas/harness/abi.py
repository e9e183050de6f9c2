"""C ABI calls for what the Python API does not offer: a call with a chosen number of threads, and
inputs as the tuner generates them.

Read next: include/dlblas/dlblas.h, whose structures these are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _dtypes, _native
from ..errors import LaunchError

# Arguments of failed calls, kept alive: a function that kept them may still read them.
_lent: list[Any] = []


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("index", ctypes.c_int32)]


class _DType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Union(ctypes.Union):
    _fields_ = [
        ("tensor", ctypes.POINTER(_Tensor)),
        ("i", ctypes.c_int64),
        ("f", ctypes.c_double),
        ("s", ctypes.c_char_p),
    ]


class _Value(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("reserved", ctypes.c_int32), ("held", _Union)]


class _Args(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("values", ctypes.POINTER(_Value)),
        ("num_values", ctypes.c_int32),
        ("num_named", ctypes.c_int32),
        ("names", ctypes.POINTER(ctypes.c_char_p)),
        ("outputs", ctypes.POINTER(_Tensor)),
        ("num_outputs", ctypes.c_int32),
        ("flags", ctypes.c_uint32),
    ]


class _Context(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("stream", ctypes.c_void_p),
        ("self", ctypes.c_void_p),
        ("num_threads", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("new_output", ctypes.c_void_p),
        ("alloc", ctypes.c_void_p),
        ("parallel_for", ctypes.c_void_p),
    ]


def _tensor(array: Any) -> _Tensor:
    code, bits = _dtypes.TABLE[str(_dtypes.name_of(array.dtype.type))][:2]
    dims = ctypes.c_int64 * 8
    return _Tensor(
        data=array.__array_interface__["data"][0],
        device=_Device(1, 0),
        ndim=array.ndim,
        dtype=_DType(code, bits, 1),
        shape=dims(*array.shape),
        strides=dims(*(s // array.itemsize for s in array.strides)),
    )


def _value(given: Any, keep: list[Any]) -> _Value:
    if isinstance(given, bool):
        return _Value(4, 0, _Union(i=int(given)))
    if isinstance(given, int):
        return _Value(2, 0, _Union(i=given))
    if isinstance(given, float):
        return _Value(3, 0, _Union(f=given))
    if isinstance(given, str):
        return _Value(5, 0, _Union(s=given.encode()))
    keep.append(_tensor(given))
    return _Value(1, 0, _Union(tensor=ctypes.pointer(keep[-1])))


def make_input(op: str, name: str, letters: Sequence[int], seed: int, array: Any) -> None:
    """Fills ``array`` as the schema specifies for this input, with the tuner's input generator."""
    handle = ctypes.c_void_p()
    _native.check(_native._lib.dlblas_op(op.encode(), ctypes.byref(handle)))
    sizes = (ctypes.c_int64 * max(1, len(letters)))(*letters)
    to = _tensor(array)
    _native.check(
        _native._lib.dlblas_make_input(
            handle, name.encode(), sizes, ctypes.c_uint64(seed), ctypes.byref(to)
        )
    )


def call(
    form: str,
    named: Mapping[str, Any],
    outputs: Sequence[Any],
    num_threads: int,
    deterministic: bool = False,
) -> None:
    """Runs ``form`` on ``num_threads`` threads; raises the typed error. ``outputs`` is empty for an
    in-place form."""
    prepare(form, named, outputs, num_threads, deterministic)()


def prepare(
    form: str,
    named: Mapping[str, Any],
    outputs: Sequence[Any],
    num_threads: int,
    deterministic: bool = False,
) -> Callable[[], None]:
    """Returns ``call`` with its structures already built: a run is ``dlblas_call`` alone."""
    library = _native._lib
    keep: list[Any] = []
    handle = ctypes.c_void_p()
    _native.check(library.dlblas_op(form.encode(), ctypes.byref(handle)))
    values = (_Value * len(named))(*(_value(v, keep) for v in named.values()))
    names = (ctypes.c_char_p * len(named))(*(name.encode() for name in named))
    results = (_Tensor * max(1, len(outputs)))(*(_tensor(array) for array in outputs))
    args = _Args(
        size=ctypes.sizeof(_Args),
        values=values,
        num_values=len(named),
        num_named=len(named),
        names=names,
        outputs=results if outputs else None,
        num_outputs=len(outputs),
        flags=int(deterministic),
    )
    context = _Context(size=ctypes.sizeof(_Context), num_threads=num_threads)

    def run() -> None:
        try:
            _native.check(library.dlblas_call(handle, ctypes.byref(args), ctypes.byref(context)))
        except LaunchError:
            _lent.append((named, outputs))
            raise

    return run
