"""What the extension delegates to Python: dtype objects, DLPack and array-interface exchange, new
results, errors.

In: calls from bindings/python/*.cpp, through the table at the end. NumPy and torch are used if the
caller has imported them; only ``finish`` imports NumPy itself, for a result. Read next:
bindings/python/hooks.hpp.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from operator import index
from typing import Any

from . import _dtypes
from ._arguments import SYNONYMS
from ._array import Array, Spec
from ._nested import Nested
from .errors import BY_STATUS, ArgumentError, Error, from_status


def ndarray() -> tuple[Any, Any, tuple[Any, ...]] | None:
    """NumPy's array type, ``empty``, and probe arrays to verify the layout of array objects
    against."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not hasattr(numpy, "empty"):  # the latter: it is being imported right now
        return None
    frozen = numpy.zeros((3, 5), numpy.int16)[::-1, 1:4]
    frozen.flags.writeable = False
    probes = (numpy.zeros((2, 3, 4), numpy.float32), frozen, numpy.zeros((), numpy.float64))
    return (
        numpy.ndarray,
        numpy.empty,
        tuple(
            (
                p,
                p.__array_interface__["data"][0],
                p.shape,
                p.strides,
                p.dtype,
                bool(p.flags.writeable),
            )
            for p in probes
        ),
    )


def numpy_dtype(dtype: Any) -> tuple[int, int] | str:
    """The DLPack (code, bits) of a numpy.dtype; a text that describes the dtype if it has none."""
    name = _dtypes.name_of(dtype.type)
    if name is None or dtype.fields is not None:
        return str(dtype)
    if not dtype.isnative:
        return f"{dtype.str} (not native byte order)"
    return _dtypes.TABLE[name][:2]


def numpy_descr(code: int, bits: int) -> Any:
    """The numpy.dtype of a result, where no argument has that dtype."""
    import numpy

    name = _dtypes.TABLE[_dtypes.NAMES[code, bits]][2]
    if name == "float4_e2m1fn_x2":  # NumPy has no packed type: the bytes
        return numpy.dtype(numpy.uint8)
    if name.startswith(("bfloat", "float8")):
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, name))
    return numpy.dtype(name)


def _refuse(op: str, argument: str, problem: str, expected: str, got: str, remedy: str) -> Error:
    message = f"{op}: {argument} {problem}; expected {expected}, got {got}; {remedy}"
    return ArgumentError.from_library(message, op, argument, expected, got)


def _torch(
    torch: Any, obj: Any, op: str, argument: str, written: bool, runs: bool
) -> tuple[Any, ...]:
    """The fields of a torch tensor; the last is the tensor whose memory holds its values."""
    if not has_memory(torch, obj):
        kind = "a meta tensor" if obj.is_meta else type(obj).__name__
        kind = "a tensor inside a transform of torch.func" if _is_transformed(torch, obj) else kind
        raise _refuse(
            op, argument, "has no memory", "a tensor with data", kind,
            "explain(), tune() and get_op() take a dlblas.Spec",
        )  # fmt: skip
    if obj.layout != torch.strided:
        raise _refuse(
            op, argument, "is not a dense tensor", "a strided layout",
            str(obj.layout).removeprefix("torch."), "convert it with .to_dense()",
        )  # fmt: skip
    if obj.requires_grad:
        if runs and torch.is_grad_enabled():
            raise _refuse(
                op, argument, "requires grad", "a tensor outside autograd", "requires_grad=True",
                "pass it with .detach(), or call under torch.no_grad()",
            )  # fmt: skip
        obj = obj.detach()
    lazy = "negative" if obj.is_neg() else "conjugate" if obj.is_conj() else ""
    if lazy and written:
        raise _refuse(
            op, argument, f"is a lazy {lazy} view", "a tensor whose memory holds its values",
            f"a set {lazy} bit", "pass a tensor of its own, for example from torch.empty_like()",
        )  # fmt: skip
    if lazy:
        obj = obj.resolve_conj().resolve_neg()
    name = _dtypes.name_of(obj.dtype)
    if name is None:
        raise _unreadable(op, argument, str(obj.dtype).removeprefix("torch."))
    code, bits, _ = _dtypes.TABLE[name]
    steps = tuple(step * (bits // 8) for step in obj.stride())
    cuda = obj.device.index if obj.device.type == "cuda" else -1
    if cuda < 0 and obj.device.type != "cpu":
        message = (
            f"{op}: {argument} is on a device that the library cannot reach; "
            f"expected cpu or cuda, got {obj.device}; move it there"
        )
        raise BY_STATUS[3].from_library(message, op, argument, "cpu or cuda", str(obj.device))
    return (obj.data_ptr(), code, bits, tuple(obj.shape), steps, False, cuda, obj)


planning = threading.local()
"""Has ``on`` while _called.py makes a call of this thread on meta tensors, in place of those with
memory."""


def is_planning() -> bool:
    return bool(getattr(planning, "on", False))


def has_memory(torch: Any, obj: Any) -> bool:
    """False for meta tensors, and for tensors of tracers and of torch.func's transforms, which may
    claim to be on the CPU."""
    if type(obj) in (torch.Tensor, torch.nn.Parameter):  # 0.3 µs less than asking the storage
        return not (obj.is_meta or _is_transformed(torch, obj))
    try:
        if obj.untyped_storage().device.type == "meta":
            return False
    except (NotImplementedError, RuntimeError):  # sparse and the like: __dlpack__ has its own words
        return True
    try:
        obj.data_ptr()
    except RuntimeError:
        return False
    return True


def _is_transformed(torch: Any, obj: Any) -> bool:
    """Whether vmap or another transform of torch.func wraps the tensor."""
    functions = getattr(torch._C, "_functorch", None)
    wrapped = getattr(functions, "is_functorch_wrapped_tensor", None)  # older torch has none
    return wrapped is not None and bool(wrapped(obj))


def wrote(obj: Any) -> None:
    """Tells autograd that a call has written to the caller's array, as for any in-place
    operation."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(obj, torch.Tensor):
        increment = getattr(torch.autograd.graph, "increment_version", None)  # older torch has none
        if increment is not None:
            increment(obj)


def _capsule(obj: Any, op: str, argument: str, stream: int | None) -> Any:
    options: dict[str, Any] = {}
    try:
        if obj.__dlpack_device__()[0] == 2:  # DLPack writes the legacy default stream as 1
            options["stream"] = stream or 1 if stream is not None else _stream_of(obj) or 1
        try:
            capsule = obj.__dlpack__(**options, max_version=(1, 0))
        except TypeError:  # a producer of before DLPack 1.0
            capsule = obj.__dlpack__(**options)
    except Exception as reason:  # a producer's own, of any type
        raise _refuse(
            op, argument, "cannot be exported by DLPack", "memory that DLPack can describe",
            f"{type(obj).__name__} ({_said(reason)})", "pass a plain dense array",
        ) from reason  # fmt: skip
    # A tuple would pass for fields that this module has checked.
    return None if isinstance(capsule, tuple) else capsule


def _unreadable(op: str, argument: str, found: str) -> Error:
    message = (
        f"{op}: {argument} has a dtype that the library cannot read; expected a number type "
        f"in native byte order, got {found}; convert it with astype()"
    )
    return BY_STATUS[2].from_library(
        message, op, argument, "a number type in native byte order", found
    )


_NATIVE = "<" if sys.byteorder == "little" else ">"
# Array-interface types without the byte order -> (code, bits); NumPy has no bf16 and f8.
_TYPES = {
    f"{kind}{bits // 8}": (code, bits)
    for code, bits, _ in _dtypes.TABLE.values()
    if (kind := {0: "i", 1: "u", 2: "f", 6: "b"}.get(code))
}


def _cuda_interface(obj: Any, op: str, argument: str, stream: int | None) -> tuple[Any, ...]:
    """As ``_interface``; the device is the one on which the driver reports the address."""
    interface = _attribute(obj, "__cuda_array_interface__", op, argument)
    producer = interface.get("stream")
    if not isinstance(producer, int | None):
        raise _incomplete("__cuda_array_interface__", op, argument, f"stream = {_said(producer)}")
    if producer is not None and (stream is None or producer != (stream or 1)):
        raise _refuse(
            op, argument, "is still being made on another stream", f"stream={producer}",
            f"stream={stream}", "pass that stream, or wait for it",
        )  # fmt: skip
    return (*_read_interface(interface, "__cuda_array_interface__", op, argument), -2)


def _interface(obj: Any, op: str, argument: str) -> tuple[Any, ...]:
    name = "__array_interface__"
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(type(obj), numpy.generic):
        # A scalar describes memory that nothing keeps: the caller keeps this array of it.
        held = numpy.asarray(obj)
        return *_interface(held, op, argument)[:5], True, -1, held
    if numpy is None or not issubclass(type(obj), numpy.ndarray):
        return _read_interface(_attribute(obj, name, op, argument), name, op, argument)
    masked = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(obj, masked.MaskedArray):
        raise _masked(op, argument, type(obj).__name__)
    # A subclass may override these attributes; the base class's describe the memory.
    dtype = numpy.ndarray.dtype.__get__(obj)
    return _read_interface(
        numpy.ndarray.__array_interface__.__get__(obj), name, op, argument, numpy_dtype(dtype)
    )


def _masked(op: str, argument: str, got: str) -> Error:
    return _refuse(
        op, argument, "is a masked array", "an array without a mask, which would be lost", got,
        "pass x.filled(value), or x.data",
    )  # fmt: skip


def _attribute(obj: Any, name: str, op: str, argument: str) -> dict[str, Any]:
    try:
        interface = getattr(obj, name)
    except Exception as reason:  # a property's own, of any type
        raise _incomplete(name, op, argument, _said(reason)) from reason
    if not isinstance(interface, dict):
        raise _incomplete(name, op, argument, type(interface).__name__)
    return interface


def _incomplete(name: str, op: str, argument: str, got: str) -> Error:
    return _refuse(
        op, argument, f"has an incomplete {name}",
        "shape, typestr and data as (address, read only), and strides, if any, as one step in "
        "bytes a dimension",
        got if len(got) < 80 else f"{got[:80]}…", "convert it, for example with numpy.asarray()",
    )  # fmt: skip


def _said(what: object) -> str:
    """The value as text, even if its ``repr`` fails."""
    try:
        said = ascii(what)
        return said if len(said) < 400 else f"{said[:400]}…"
    except Exception:
        return type(what).__name__


def _integers(given: Any, least: int, most: int) -> tuple[int, ...] | None:
    """A tuple or list of integers, if all of them are in range; else None."""
    if not isinstance(given, (tuple, list)) or len(given) > 1024:
        return None
    try:
        read = tuple(map(index, given))
    except Exception:  # raised by a user's __index__
        return None
    return read if all(least <= n <= most for n in read) else None


def _read_interface(
    interface: dict[str, Any], name: str, op: str, argument: str, dtype: Any = None
) -> tuple[Any, ...]:
    """Checks the type and range of every entry. ``dtype``: the dtype, if it is already known."""

    def bad(entry: str) -> Error:
        got = _said(KeyError(entry))
        if entry in interface:
            got = f"{entry} = {_said(interface[entry])}"
        return _incomplete(name, op, argument, got)

    for entry in ("typestr", "shape", "data"):
        if entry not in interface:
            raise bad(entry)
    if interface.get("mask") is not None:
        raise _masked(op, argument, "a mask")
    if dtype is None:
        typestr = interface["typestr"]
        if not isinstance(typestr, str):
            raise bad("typestr")
        dtype = _TYPES.get(typestr[1:])
        native = typestr[:1] == _NATIVE or (typestr[:1] == "|" and typestr[2:] == "1")
        dtype = dtype if dtype and native else ascii(typestr[:40])[1:-1]
    if isinstance(dtype, str):
        raise _unreadable(op, argument, dtype)
    shape = _integers(interface["shape"], 0, 2**63 - 1)
    if shape is None:
        raise bad("shape")
    strides = interface.get("strides")
    steps = None if strides is None else _integers(strides, -(2**63), 2**63 - 1)
    if strides is not None and (steps is None or len(steps) != len(shape)):
        raise bad("strides")
    data = interface["data"]
    if not isinstance(data, tuple) or len(data) != 2:
        raise bad("data")
    address = _integers(data[:1], 0, 2**64 - 1)
    try:
        read_only = bool(data[1])
    except Exception:  # raised by a user's __bool__
        address = None
    if address is None:
        raise bad("data")
    if not address[0] and 0 not in shape:
        raise _refuse(
            op, argument, "has no memory", "the address of its first element", "address 0",
            "pass an array; explain(), tune() and get_op() take a dlblas.Spec as well",
        )  # fmt: skip
    return (address[0], *dtype, shape, steps, read_only)


def _has(obj: Any, name: str) -> bool:
    """``hasattr``, but true if a property raises: reading it then reports the error."""
    try:
        return hasattr(obj, name)
    except Exception:
        return True


_reading = Nested()


def exchange(
    obj: Any, op: str, argument: str, written: bool, runs: bool, stream: int | None
) -> Any:
    """A DLPack capsule, or (address, code, bits, shape, byte strides, read only, CUDA device).

    ``runs``: True for a call, False for a query about one.
    """
    cls = type(obj)  # its __class__ may say anything
    if issubclass(cls, (Spec, Array)):
        return obj._exchange
    torch = sys.modules.get("torch")
    if torch is not None and issubclass(cls, torch.Tensor):
        if stream is not None:
            raise _refuse(
                op, "stream", "is given with torch tensors", "torch's current stream", str(stream),
                "call inside torch.cuda.stream(…)",
            )  # fmt: skip
        return _torch(torch, obj, op, argument, written, runs)
    with _reading as fine:
        if fine:
            return _by_protocol(obj, op, argument, stream)
    raise _refuse(
        op, argument, "asks the library for itself", "an array that knows its memory",
        cls.__name__, "call nothing of dlblas in its __dlpack__ or __array_interface__",
    )  # fmt: skip


def _by_protocol(obj: Any, op: str, argument: str, stream: int | None) -> Any:
    cls, numpy = type(obj), sys.modules.get("numpy")
    if _has(cls, "__dlpack__") and not (numpy is not None and issubclass(cls, numpy.ndarray)):
        return _capsule(obj, op, argument, stream)
    if _has(obj, "__array_interface__"):
        return _interface(obj, op, argument)
    if _has(obj, "__cuda_array_interface__"):
        return _cuda_interface(obj, op, argument, stream)
    advice = "convert it, for example with numpy.asarray()"
    if isinstance(obj, (tuple, list)):
        advice = _hint(op, argument) or advice
    raise _refuse(
        op, argument, "is not an array", "an array with __dlpack__ or __array_interface__",
        cls.__name__, advice,
    )  # fmt: skip


def _stream_of(obj: Any) -> int:
    """The current stream of the array's library; 0, the legacy default stream, if unknown."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and isinstance(obj, torch.Tensor):
        return int(torch.cuda.current_stream(obj.device).cuda_stream)
    if cupy is not None and isinstance(obj, cupy.ndarray):
        return int(cupy.cuda.get_current_stream().ptr)
    return 0


def new_output(like: Any, code: int, bits: int, shape: tuple[int, ...], cuda: int) -> Any:
    """An array for a result: of the caller's type if that can be created uninitialised, else an
    ``Array``."""
    name = _dtypes.NAMES[code, bits]
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(like, torch.Tensor):
        return torch.empty(shape, dtype=getattr(torch, _dtypes.TABLE[name][2]), device=like.device)
    if cuda >= 0:
        return _new_on_gpu(like, name, shape)
    if numpy is not None and isinstance(like, numpy.ndarray):
        return numpy.empty(shape, numpy_descr(code, bits))
    return Array(shape, name)


def _new_on_gpu(like: Any, name: str, shape: tuple[int, ...]) -> Any:
    cupy = sys.modules.get("cupy")
    if cupy is None or not isinstance(like, cupy.ndarray):
        raise _refuse(
            "dlblas", "result", "cannot be made", "torch or CuPy arrays, which have an allocator",
            type(like).__name__, "pass out=",
        )  # fmt: skip
    same = _dtypes.name_of(like.dtype) == name
    with like.device:
        return cupy.empty(shape, like.dtype if same else numpy_descr(*_dtypes.TABLE[name][:2]))


def number(like: Any, argument: str, value: float, code: int, bits: int) -> Any:
    """A number as an array without dimensions, for a ``like`` on a GPU."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    name = _dtypes.NAMES[code, bits]
    if torch is not None and isinstance(like, torch.Tensor):
        dtype = getattr(torch, _dtypes.TABLE[name][2])
        return torch.full((), value, dtype=dtype, device=like.device)
    if cupy is not None and isinstance(like, cupy.ndarray):
        with like.device:
            return cupy.full((), value, numpy_descr(code, bits))
    raise _refuse(
        "dlblas", argument, "is a number", "an array on the GPU, as the others are",
        "a Python number", "pass torch or CuPy arrays, or an array of one element",
    )  # fmt: skip


def finish(like: Any, array: Any) -> Any:
    """The result as the caller gets it: an ``Array`` becomes the caller's type or NumPy's, if
    possible."""
    if not isinstance(array, Array) or isinstance(like, Array):
        return array
    if hasattr(like, "__array_namespace__"):
        namespace = like.__array_namespace__()
        if hasattr(namespace, "from_dlpack"):
            return namespace.from_dlpack(array)
    try:
        import numpy

        if hasattr(array, "__array_interface__"):
            return numpy.asarray(array)
        # bf16 and f8: the bytes, viewed as ml_dtypes' type
        count = array._code[1] // 8
        buffer = numpy.frombuffer(memoryview(array._buffer), numpy.uint8)
        start = array.data - buffer.ctypes.data
        for n in array.shape:
            count *= n
        return buffer[start : start + count].view(numpy_descr(*array._code)).reshape(array.shape)
    except ImportError:
        return array


_PARTS = ("shapes", "dtypes", "aliasing", "numerics", "errors", "source")


_rooms: dict[str, Any] = {}


def said(name: str, kind: str, default: Any) -> Any:
    """What ops/<family>/<op>/<op>.py, or a family's ops/<family>/<family>.py, says under that name;
    neither need exist."""
    if name not in _rooms:
        from importlib import import_module

        try:
            _rooms[name] = import_module(f"dlblas.ops.{name}")
        except ModuleNotFoundError:
            _rooms[name] = None
    return getattr(_rooms[name], kind, default)


def takes_dim(form: str, op: str) -> bool:
    """Whether calls of the form may pass dim=-1, which the binding skips. Other dims:
    _over_dim.py."""
    return form == op and said(op, "OVER_DIM", None) is not None


def _hint(form: str, argument: str) -> str:
    """The remedy that the operator's file has for what users of other libraries pass there."""
    return str(said(form.removesuffix("_"), "HINTS", {}).get(argument, ""))


def docstring(form: str, op: str, family: str, formula: str, schema: str) -> str:
    """A function's docstring: the text of ops/<family>/<op>/<op>.py, and the schema."""
    docs = said(family, "DOCS", {}) | said(op, "DOCS", {})  # its own come first
    words = docs.get(form) or docs.get(op) or {}
    lines = [words["summary"], ""] if "summary" in words else []
    lines += [words.get("formula", formula), ""]
    lines += [f"{part.capitalize()}: {words[part]}" for part in _PARTS if part in words]
    return "\n".join([*lines, f"Schema: {schema}"])


# Form name -> a function of the (arguments, keywords) of a call that the form refused. It returns
# the call's result after all; None if the refusal stands; False if the call was made and returns
# None, as an in-place form does. Filled by _other_forms.py.
other_forms: dict[str, Callable[[tuple[Any, ...], dict[str, Any]], Any]] = {}
# The same for an older form of that name; torch.compile uses these too.
older_forms: dict[str, Callable[[tuple[Any, ...], dict[str, Any]], Any]] = {}

# Form name -> the arguments that its calls from Python take besides the operator's. Filled by
# _functions.py.
besides: dict[str, str] = {}


def _remedy(message: str, op: str, argument: str, expected: str, got: str) -> str:
    """A remedy in Python's terms, if the library gives none."""
    if not message.endswith(f", got {got}"):
        return ""
    like = expected.partition(" (like ")[2].rstrip(")")
    is_given = argument.isidentifier() and argument != "out"
    if message.startswith(f"{op}: {argument} has dtype ") and like.isidentifier() and is_given:
        to = f"{argument}.to({like}.dtype)"
        return f"; cast it: {to} in torch, {to.replace('.to(', '.astype(')} in NumPy"
    hint = _hint(op, argument) if got.startswith("the integer ") else ""
    return f"; {hint}" if hint else ""


def error(status: int, message: str, op: str, argument: str, expected: str, got: str) -> Error:
    """``from_status``; for an unknown argument, the expected names are all those that a Python call
    takes."""
    if message.startswith(f"{op}: {argument} is not an argument; ") and op in besides:
        every = f"{expected}, {besides[op]}"
        message = message.replace(f"; expected {expected}, got ", f"; expected {every}, got ", 1)
        expected = every
        meant = SYNONYMS.get(argument)
        known = every.removeprefix("one of ").split(", ")
        if meant in known and "did you mean" not in message:
            message += f"; did you mean {meant}?"
        if hint := _hint(op, argument):
            message += f"; {hint}"
    else:
        message += _remedy(message, op, argument, expected, got)
    return from_status(status, message, op, argument, expected, got)


TABLE: dict[str, Any] = {
    "error": error,
    "ndarray": ndarray,
    "numpy_dtype": numpy_dtype,
    "numpy_descr": numpy_descr,
    "exchange": exchange,
    "wrote": wrote,
    "stream": _stream_of,
    "new_output": new_output,
    "number": number,
    "finish": finish,
    "dtype_name": _dtypes.name_of,
    "docstring": docstring,
    "other_forms": other_forms,
    "older_forms": older_forms,
    "takes_dim": takes_dim,
}
