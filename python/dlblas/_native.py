"""libdlblas.so from Python: the control plane by ctypes, and the data plane it hands over at
import.

Out: ``FUNCTIONS`` (every callable form), ``plane`` (the control functions that take operator
arguments), ``counters``, ``info``, ``cache_command``, ``set_pin``. Read next:
bindings/python/init.cpp.
"""

from __future__ import annotations

import ctypes
import os
import sys
from types import ModuleType
from typing import Any, NamedTuple

from . import _hooks
from .errors import InternalError

_ABI = 1


class _Error(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("status", ctypes.c_int),
        ("message", ctypes.c_char_p),
        ("op", ctypes.c_char_p),
        ("argument", ctypes.c_char_p),
        ("expected", ctypes.c_char_p),
        ("got", ctypes.c_char_p),
    ]


COUNTER_NAMES = (
    "calls", "selected", "compiled", "prepared", "launched",
    "measured", "store_hits", "store_misses", "published", "quarantined",
)  # fmt: skip


class _Counters(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), *((name, ctypes.c_int64) for name in COUNTER_NAMES)]


class _Machine(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("copy_bytes_per_s", ctypes.c_double),
        ("peak_flops", ctypes.c_double),
        ("device", ctypes.c_int32 * 2),  # DLPack's type and index
    ]


class Parameter(NamedTuple):
    name: str
    kind: str  # "tensor", "int", "float", "bool", "enum", "dtype"
    labels: tuple[str, ...]  # of an enumeration


class Function(NamedTuple):
    """A callable form of an operator: the functional one or an in-place one."""

    name: str
    call: Any  # the builtin
    operator: str
    family: str
    schema: str
    params: tuple[Parameter, ...]
    results: tuple[str, ...]  # empty for an in-place form


def library_path() -> str:
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", "libdlblas.so")


def _load() -> ctypes.PyDLL:
    path = library_path()
    try:
        library = ctypes.PyDLL(path)
    except OSError as reason:
        raise ImportError(
            f"dlblas: library cannot be loaded; expected {path}, got {reason}; build or reinstall"
        ) from reason
    library.dlblas_abi_version.restype = ctypes.c_uint32
    if library.dlblas_abi_version() != _ABI:
        raise ImportError(
            f"dlblas: library has another ABI; expected {_ABI}, "
            f"got {library.dlblas_abi_version()}; reinstall"
        )
    return library


# PyDLL keeps the interpreter's lock: these calls are short. Long ones go through the data plane.
_lib = _load()


def library() -> ctypes.PyDLL:
    """For functions that only one module calls."""
    return _lib


def _text(text: bytes) -> str:
    """Messages repeat what they refuse: paths and words of any bytes."""
    return text.decode(errors="replace")


def _last_error() -> _Error:
    e = _Error(size=ctypes.sizeof(_Error))
    _lib.dlblas_last_error(ctypes.byref(e))
    return e


def last_failure() -> tuple[int, str]:
    """The status and the words of the calling thread's."""
    e = _last_error()
    return int(e.status), _text(e.message)


def check(status: int) -> None:
    """Raises the typed error of the calling thread's last failure."""
    if status == 0:
        return
    e = _last_error()
    texts = (_text(text) for text in (e.message, e.op, e.argument, e.expected, e.got))
    raise _hooks.error(e.status, *texts)


def _library_folders() -> list[str]:
    """Where pip puts oneDNN's library, and NVIDIA's: <site-packages>/nvidia/*/lib; the library
    itself knows the system's folders."""
    folders = dict.fromkeys(os.path.join(p, "lib") for p in (sys.prefix, sys.base_prefix))
    for site in sys.path:
        root = os.path.join(site, "nvidia")
        if site.endswith("-packages") and os.path.isdir(root):
            with os.scandir(root) as entries:
                names = sorted((e.name for e in entries), reverse=True)  # cu13 before cuda_nvrtc
            folders |= dict.fromkeys(os.path.join(root, name, "lib") for name in names)
    return list(folders)


def _start() -> dict[str, Any]:
    check(_lib.dlblas_add_library_path(os.fsencode(":".join(_library_folders()))))
    init = _lib.dlblas_python_init
    init.restype = ctypes.c_void_p  # as py_object, a null pointer crashes in a subinterpreter
    init.argtypes = [ctypes.py_object, ctypes.c_size_t, ctypes.POINTER(ctypes.c_char_p)]
    why_not = ctypes.c_char_p()
    address = init(_hooks.TABLE, object.__basicsize__, ctypes.byref(why_not))
    if not address:
        words = (why_not.value or b"").decode()
        raise ImportError(f"dlblas: {words}, got {sys.version}")
    table: dict[str, Any] = ctypes.cast(address, ctypes.py_object).value
    return table


# The same objects for the life of the process, however often this module is loaded.
plane: dict[str, Any] = _start()
FUNCTIONS: dict[str, Function] = plane.setdefault("made", {})


def add_functions(entries: tuple[Any, ...]) -> list[Function]:
    """Enters callable forms; what is new."""
    read = [(*entry[:5], tuple(Parameter(*p) for p in entry[5]), entry[6]) for entry in entries]
    made = [Function._make(row) for row in read]
    FUNCTIONS.update({function.name: function for function in made})
    return made


if not FUNCTIONS:
    add_functions(plane["functions"])


def restore(package: ModuleType) -> None:
    """Puts a package that was taken out of ``sys.modules`` back, and the modules below it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "dlblas"]:
        del sys.modules[name]
    found = [package]
    for module in found:
        sys.modules[module.__name__] = module
        found += [
            child
            for child in vars(module).values()
            if isinstance(child, ModuleType)
            and child.__name__.startswith(f"{module.__name__}.")
            and child.__name__ not in sys.modules
        ]


def _take_text(pointer: ctypes.c_void_p) -> str:
    text = ctypes.string_at(pointer.value or 0).decode()
    _lib.dlblas_free(pointer)
    return text


def _json(status: int, pointer: ctypes.c_void_p) -> dict[str, Any]:
    import json

    check(status)
    value = json.loads(_take_text(pointer))
    if not isinstance(value, dict):
        raise InternalError.from_library(
            "dlblas: JSON is malformed; expected an object; please report it"
        )
    return value


def info() -> dict[str, Any]:
    """Version, devices, libraries found or why not, environment variables, operators and the
    cache's state."""
    pointer = ctypes.c_void_p()
    return _json(_lib.dlblas_info(ctypes.byref(pointer)), pointer)


def cache_command(command: str) -> dict[str, Any]:
    pointer = ctypes.c_void_p()
    return _json(_lib.dlblas_cache(os.fsencode(command), ctypes.byref(pointer)), pointer)


def counters() -> dict[str, int]:
    """How often things happened in this process: what ``measured`` and ``compiled`` do not
    count did not happen."""
    c = _Counters(size=ctypes.sizeof(_Counters))
    _lib.dlblas_get_counters(ctypes.byref(c))
    return {name: getattr(c, name) for name in COUNTER_NAMES}


def plain(name: str) -> str:
    """The name, or one that is nobody's: lone surrogates and NULs, which no C string can hold, as
    escapes. So the library says that it does not know the name."""
    return name.encode(errors="backslashreplace").decode().replace("\0", "\\x00")


def _handle(name: str) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    check(_lib.dlblas_op(plain(name).encode(), ctypes.byref(handle)))
    return handle


def set_pin(op: str, implementation: str | None, config: str | None) -> None:
    """``None`` for the implementation takes the pin away."""
    texts = (None if t is None else plain(t).encode() for t in (implementation, config))
    check(_lib.dlblas_pin(_handle(op), *texts))


def unknown_operator(name: str) -> None:
    """Raises the library's UnknownOperatorError, which lists the known names."""
    _handle(name)


def machine_ceilings(
    threads: int = 0, num_bytes: int = 256 << 20, cuda: int = -1
) -> tuple[float, float]:
    """The copy rate (bytes read and written a second) and f32 peak (FLOP a second) of the host,
    or of a CUDA device by its index, measured now."""
    m = _Machine(size=ctypes.sizeof(_Machine), device=(1, 0) if cuda < 0 else (2, cuda))
    bench = ctypes.CDLL(
        library_path()
    ).dlblas_bench_machine  # it runs for seconds: without the interpreter's lock
    bench.argtypes = [ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p]
    check(bench(threads, num_bytes, ctypes.byref(m)))
    return m.copy_bytes_per_s, m.peak_flops


def version() -> str:
    _lib.dlblas_version.restype = ctypes.c_char_p
    return str(_lib.dlblas_version().decode())
