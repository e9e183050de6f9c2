"""The functions of libdlblas.so that take no operator arguments, through ctypes.

Out: ``check`` (a status as a typed error), ``counters``, ``info``, ``cache_command``, ``set_pin``.
Read next: _functions.py, which starts the extension inside the same library.
"""

from __future__ import annotations

import ctypes
import os
import sys
from types import ModuleType
from typing import Any

from .errors import InternalError, from_status

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


# PyDLL keeps the GIL: these calls are short. Long ones go through the extension.
_lib = _load()


def library() -> ctypes.PyDLL:
    """The library, for functions that only one module calls."""
    return _lib


def _text(text: bytes) -> str:
    """Decodes a message, which may quote paths and words of any bytes."""
    return text.decode(errors="replace")


def _last_error() -> _Error:
    e = _Error(size=ctypes.sizeof(_Error))
    _lib.dlblas_last_error(ctypes.byref(e))
    return e


def last_failure() -> tuple[int, str]:
    """Status and message of the calling thread's last failure."""
    e = _last_error()
    return int(e.status), _text(e.message)


def check(status: int) -> None:
    """Raises the typed error of the calling thread's last failure."""
    if status == 0:
        return
    e = _last_error()
    texts = (_text(text) for text in (e.message, e.op, e.argument, e.expected, e.got))
    raise from_status(e.status, *texts)


def _library_folders() -> list[str]:
    """The folders where pip installs oneDNN's library and NVIDIA's (<site-packages>/nvidia/*/lib);
    libdlblas.so itself knows the system's folders."""
    folders = dict.fromkeys(os.path.join(p, "lib") for p in (sys.prefix, sys.base_prefix))
    for site in sys.path:
        root = os.path.join(site, "nvidia")
        if site.endswith("-packages") and os.path.isdir(root):
            with os.scandir(root) as entries:
                names = sorted((e.name for e in entries), reverse=True)  # cu13 before cuda_nvrtc
            folders |= dict.fromkeys(os.path.join(root, name, "lib") for name in names)
    return list(folders)


check(_lib.dlblas_add_library_path(os.fsencode(":".join(_library_folders()))))


def restore(package: ModuleType) -> None:
    """Puts a package that was removed from ``sys.modules`` back, with the modules below it."""
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


def operator_row(name: str) -> dict[str, Any]:
    """One operator's row of ``info()["operators"]``, by its name or a form's. Raises
    UnknownOperatorError."""
    pointer = ctypes.c_void_p()
    return _json(_lib.dlblas_op_info(_handle(name), ctypes.byref(pointer)), pointer)


def cache_command(command: str) -> dict[str, Any]:
    pointer = ctypes.c_void_p()
    return _json(_lib.dlblas_cache(os.fsencode(command), ctypes.byref(pointer)), pointer)


def counters() -> dict[str, int]:
    """Event counts of this process. They are complete: nothing was measured or compiled that
    ``measured`` and ``compiled`` do not count."""
    c = _Counters(size=ctypes.sizeof(_Counters))
    _lib.dlblas_get_counters(ctypes.byref(c))
    return {name: getattr(c, name) for name in COUNTER_NAMES}


def missed_mark() -> int:
    """The current mark for ``missed``; drops all earlier choices, so that each is made anew."""
    mark = ctypes.c_uint64()
    check(_lib.dlblas_missed_mark(ctypes.byref(mark)))
    return mark.value


def missed(mark: int, with_known: bool = False) -> list[dict[str, Any]]:
    """The keys that calls missed since the mark; 0: since the start. ``with_known``: also those
    that the store decided."""
    pointer = ctypes.c_void_p()
    list_of = _lib.dlblas_met if with_known else _lib.dlblas_missed
    status = list_of(ctypes.c_uint64(mark), ctypes.byref(pointer))
    rows: list[dict[str, Any]] = _json(status, pointer)["missed"]
    return rows


def plain(name: str) -> str:
    """The name with lone surrogates and NULs, which no C string can hold, as escapes. No operator
    has such a name, so the library reports it as unknown."""
    return name.encode(errors="backslashreplace").decode().replace("\0", "\\x00")


def _handle(name: str) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    check(_lib.dlblas_op(plain(name).encode(), ctypes.byref(handle)))
    return handle


def set_pin(op: str, implementation: str | None, config: str | None) -> None:
    """Pins an operator to an implementation; ``None`` removes the pin."""
    texts = (None if t is None else plain(t).encode() for t in (implementation, config))
    check(_lib.dlblas_pin(_handle(op), *texts))


def unknown_operator(name: str) -> None:
    """Raises the library's UnknownOperatorError, which lists the known names."""
    _handle(name)


def machine_ceilings(
    threads: int = 0, num_bytes: int = 256 << 20, cuda: int = -1
) -> tuple[float, float]:
    """The copy rate (bytes read and written per second) and the f32 peak (FLOP per second) of the
    host, or of the CUDA device with that index, measured now."""
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
