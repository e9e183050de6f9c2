"""Converts the options of attention's scores to what the operators take, for the functions of
several families.

In: a call's arguments. Out: the operators' numbers, or a typed error. Read next:
../../ops/attention/api.py, ../../ops/kv_cache/api.py.
"""

from __future__ import annotations

from typing import Any

from ._given import asks_for_gradients, grad_error, integer
from .errors import ArgumentError, ArgumentTypeError


def scale_of(op: str, scale: Any, *queries: Any) -> tuple[Any, ...]:
    """(scale, *queries) for the operators, whose scale of 0 means 1 / √D, as None does here. A
    scale of 0 makes the queries 0 instead: every score that counts is then 0."""
    if scale is None:
        return 0.0, *queries
    if isinstance(scale, bool):
        return scale, *queries  # the operators refuse it
    if not isinstance(scale, (int, float)):
        scale = _number(op, "scale", scale)
    if isinstance(scale, (int, float)) and scale == 0:
        return 0.0, *(_times_0(op, q) for q in queries)
    return scale, *queries


def _times_0(op: str, q: Any) -> Any:
    """``q · 0`` in q's dtype: NaN and infinities become NaN, as in ``0 · (q · k)``."""
    if not hasattr(q, "dtype"):
        return q  # the operator refuses it
    if not hasattr(type(q), "__mul__"):
        expected, got = "a torch tensor or a NumPy array", type(q).__name__
        raise ArgumentTypeError.from_library(
            f"{op}: scale of 0 takes arithmetic on q; expected {expected}, got {got}; pass "
            "numpy.asarray() of it",
            op, "scale", expected, got,
        )  # fmt: skip
    if "float8" in str(q.dtype) and hasattr(q, "new_empty"):
        return (q.float() * 0).to(q.dtype)  # torch multiplies no f8
    return q * 0


def _number(op: str, name: str, value: Any) -> Any:
    """A NumPy scalar, a fraction or a tensor of one element as Python's own number, as the
    operators would read it. torch's symbolic numbers stay symbolic; the operators refuse what is
    not a number."""
    if asks_for_gradients(value):
        raise grad_error(op, name)
    kind = type(value).__name__
    if kind in ("SymFloat", "SymInt", "bool_", "bool") or not hasattr(type(value), "__float__"):
        return value
    try:
        return float(value)
    except Exception:  # of several elements, without memory, or a foreign object's own
        return value


def softcap_of(op: str, softcap: Any) -> Any:
    """The soft cap; None becomes the operators' 0, which means none."""
    if softcap is None:
        return 0.0
    return softcap if isinstance(softcap, (int, float)) else _number(op, "softcap", softcap)


def flag_of(op: str, name: str, value: Any) -> bool:
    """An option of a function as True or False; None is False, as for the operators' own flags."""
    if value is None or isinstance(value, bool):
        return bool(value)
    if str(getattr(value, "dtype", "")).rpartition(".")[2] == "bool" and _is_alone(value):
        return bool(value)
    number = integer(op, name, value, "True or False")
    if number not in (0, 1):
        expected = "True or False"
        raise ArgumentError.from_library(
            f"{op}: {name} is out of range; expected {expected}, got {number}",
            op, name, expected, str(number),
        )  # fmt: skip
    return number == 1


def check_length(op: str, name: str, value: Any) -> None:
    """Refuses a longest length that is not an integer. The operators do not need it, so a tensor's
    value is not read."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return
    expected, kind = "an integer, or None", type(value)
    dtype = str(getattr(value, "dtype", "int")).rpartition(".")[2]
    if not hasattr(kind, "__index__") or kind is bool or "int" not in dtype or not _is_alone(value):
        raise ArgumentTypeError.from_library(
            f"{op}: {name} is of another type; expected {expected}, got {kind.__name__}",
            op, name, expected, kind.__name__,
        )  # fmt: skip


def _is_alone(value: Any) -> bool:
    """Whether an array has one element; numbers have no shape."""
    return all(size == 1 for size in getattr(value, "shape", ()))


def window_of(op: str, window: Any) -> Any:
    """The window; None becomes the operators' −1, which means all keys."""
    if window is None:
        return -1
    if not (isinstance(window, int) or hasattr(type(window), "__index__")):
        expected, got = "one number of keys, or None for all", repr(window)[:60]
        raise ArgumentTypeError.from_library(
            f"{op}: window is no number of keys; expected {expected}, got {got}",
            op, "window", expected, got,
        )  # fmt: skip
    if window < 0:
        expected = "0 or more keys, or None for all"
        raise ArgumentError.from_library(
            f"{op}: window is out of range; expected {expected}, got {window}",
            op, "window", expected, str(window),
        )  # fmt: skip
    return window
