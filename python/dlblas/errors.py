"""Errors of dlblas: one class per kind, each also a builtin exception, with what was expected and
what was given.

Every text reads ``<op>: <argument> <problem>; expected <x>, got <y>; <what to do>``. The classes
take the arguments that users of Triton Fused Operators know, in the same order or after a message;
the library fills the same attributes. Raised by: from_status. Read next: bindings/python/hooks.hpp.
"""

from __future__ import annotations

import re
import typing as _typing
from collections.abc import Mapping
from typing import Any

from . import _unknown
from ._text import alike

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "CompileError",
    "DeviceError",
    "Error",
    "InternalError",
    "LaunchError",
    "NumericalOverflowError",
    "ShapeMismatchError",
    "TritonKernelError",
    "TuningFailedError",
    "UnknownOperatorError",
    "UnsupportedDtypeError",
    "UnsupportedError",
]


_WORD = re.compile(r"[A-Za-z_]\w{3,}")  # shorter ones, dtypes and letters, are all near each other


def _near(message: str, expected: str, got: str) -> str:
    """``; did you mean relu?``, if one of the expected words is similar to the given one."""
    if "did you mean" in message:
        return ""
    word = got.strip("'\"")
    known = [one.strip("'\"") for one in re.split(r",? or |, ", expected.removeprefix("one of "))]
    if " is not an argument; " in message and word not in known:
        return _near_argument(word, known)
    if len(known) < 2 or word in known or not _WORD.fullmatch(word):
        return ""
    from difflib import get_close_matches

    words = [one for one in known if _WORD.fullmatch(one)]
    close = get_close_matches(word, words, n=1, cutoff=0.7) or alike(word, words)
    return f"; did you mean {close[0]}?" if close else ""


def _near_argument(word: str, known: list[str]) -> str:
    """Also finds a longer or a shorter form of a name: eps for epsilon."""
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=1) if len(word) > 2 else []
    longer = [
        one for one in known if len(one) > 2 and (word.startswith(one) or one.startswith(word))
    ]
    close += sorted(longer, key=len)
    return f"; did you mean {close[0]}?" if close else ""


def _rebuild(cls: type[Error], message: str, state: dict[str, Any]) -> Error:
    error = cls.__new__(cls, message)
    error.__dict__.update(state)
    return error


def renamed(
    error: Error, op: str, argument: str = "", names: Mapping[str, str] | None = None
) -> Error:
    """The same error under another operator's name, with another name of the argument. ``names``
    maps the operator's argument names to the other's, wherever the text mentions them."""
    head, text = f"{error.op}: ", str(error)
    if text.startswith(head):
        front, rest = f"{op}: ", text.removeprefix(head)
        if argument and rest.startswith(error.argument):
            front, rest = front + argument, rest.removeprefix(error.argument)
        text = front + _with_names(rest, names)
    again = _rebuild(type(error), text, {**error.__dict__, "op": op})
    again.argument = argument or error.argument
    again.expected = _with_names(again.expected, names)
    again._fill()
    return again


def _with_names(text: Any, names: Mapping[str, str] | None) -> Any:
    """Replaces argument names in a text. A name of one letter may be a word: it counts as a
    tensor's only before its sizes, a bracket or a dot."""
    if not names or not isinstance(text, str):
        return text
    known = "|".join(map(re.escape, names))
    mention = rf"(?<![\w.])(?:{known})(?![\w])"
    single = r"(?<=\b\w)(?! ?[\[(]|[).,;]| is\)|$)"
    return re.sub(rf"{mention}(?!{single})", lambda found: names[found[0]], text)


def _read(
    names: tuple[str, ...], args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[str, list[Any]]:
    """A constructor's message, if it has one, and the values called ``names``. These come in this
    order, by keyword, or either way after a message; None for one that was not given."""
    left = [name for name in names if name not in named]
    begins_with_text = bool(args) and isinstance(args[0], str)
    has_message = begins_with_text and (
        len(args) == 1 or len(args) > len(left) or names[0] in named
    )
    values = args[1:] if has_message else args
    unknown = sorted(set(named) - set(names))
    if unknown or len(values) > len(left):
        wanted = ", ".join(names)
        raise TypeError(f"takes a message and {wanted}; got {len(args)} values and {unknown}")
    given = {**named, **dict(zip(left, values, strict=False))}
    return args[0] if has_message else "", [given.get(name) for name in names]


class Error(Exception):
    """Base of all errors; ``op``, ``argument``, ``expected`` and ``got`` are "" if unknown."""

    op: str = ""
    argument: str = ""
    expected: Any = ""
    got: Any = ""

    @classmethod
    def from_library(
        cls, message: str, op: str = "", argument: str = "", expected: str = "", got: str = ""
    ) -> Error:
        """The error as the library reports it, created without the public constructor."""
        message += _near(message, expected, got)
        error = cls.__new__(cls, message)  # BaseException.__new__ keeps the text as args
        error.op, error.argument, error.expected, error.got = op, argument, expected, got
        error._fill()
        return error

    def _fill(self) -> None:
        """Sets a class's own attributes from the four common ones."""

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), str(self), self.__dict__)


TritonKernelError = Error


class ShapeMismatchError(Error, ValueError):
    """A shape that the operator's letters do not allow: ``(expected, actual, tensor_name)``."""

    actual: Any = ""
    tensor_name: str | None = None

    def __init__(self, *args: Any, **named: Any) -> None:
        names = ("expected", "actual", "tensor_name")
        message, (expected, actual, tensor_name) = _read(names, args, named)
        super().__init__(
            message
            or f"{tensor_name or 'tensor'} has the wrong shape; expected {expected}, got {actual}"
        )
        self.expected, self.got, self.argument = expected, actual, tensor_name or ""
        self._fill()

    def _fill(self) -> None:
        self.actual, self.tensor_name = self.got, self.argument or None


class UnsupportedDtypeError(Error, TypeError):
    """A dtype that the operator does not take: ``(dtype, supported_dtypes, tensor_name)``."""

    dtype: Any = ""
    supported_dtypes: Any = ()
    tensor_name: str | None = None

    def __init__(self, *args: Any, **named: Any) -> None:
        names = ("dtype", "supported_dtypes", "tensor_name")
        message, (dtype, supported_dtypes, tensor_name) = _read(names, args, named)
        allowed = ", ".join(map(str, supported_dtypes or ()))
        super().__init__(
            message
            or f"{tensor_name or 'tensor'} has an unsupported dtype; "
            f"expected {allowed}, got {dtype}"
        )
        self.expected, self.got, self.argument = allowed, dtype, tensor_name or ""
        self._fill()
        self.supported_dtypes = supported_dtypes

    def _fill(self) -> None:
        self.dtype, self.tensor_name = self.got, self.argument or None
        self.supported_dtypes = [
            word.strip() for word in str(self.expected).replace(" or ", ",").split(",")
        ]


class DeviceError(Error, ValueError):
    """A tensor on another device than the call's, or on one the library cannot reach:
    ``(expected_device, actual_device, tensor_name)``."""

    expected_device: Any = ""
    actual_device: Any = ""
    tensor_name: str | None = None

    def __init__(self, *args: Any, **named: Any) -> None:
        names = ("expected_device", "actual_device", "tensor_name")
        message, (expected_device, actual_device, tensor_name) = _read(names, args, named)
        super().__init__(
            message
            or f"{tensor_name or 'tensor'} is on the wrong device; "
            f"expected {expected_device}, got {actual_device}"
        )
        self.expected, self.got, self.argument = expected_device, actual_device, tensor_name or ""
        self._fill()

    def _fill(self) -> None:
        self.expected_device, self.actual_device = self.expected, self.got
        self.tensor_name = self.argument or None


class ArgumentError(Error, ValueError):
    """A missing, unknown, repeated or ill-formed argument."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument of the wrong Python type, or an unknown option: a TypeError, as in Python
    itself."""


class NumericalOverflowError(ArgumentError):
    """Values that do not fit the result's dtype at any allowed scale."""

    def __init__(
        self,
        message: str,
        max_value: float | None = None,
        scale: float | None = None,
        attempts: int | None = None,
    ) -> None:
        super().__init__(message)
        self.max_value, self.scale, self.attempts = max_value, scale, attempts


class UnknownOperatorError(Error, NameError):
    """No operator has this name."""


class UnsupportedError(Error, NotImplementedError, LookupError):
    """No implementation can serve the call; the text lists every candidate with its reason."""


class CompileError(Error, RuntimeError):
    """A kernel did not compile."""


class LaunchError(Error, RuntimeError):
    """A kernel failed to run, or its memory could not be allocated."""


class TuningFailedError(Error, RuntimeError):
    """A search ended without a single correct candidate:
    ``(problem_size, configs_tried, last_error)``."""

    problem_size: Any = None
    configs_tried: int | None = None
    last_error: Any = None

    def __init__(self, *args: Any, **named: Any) -> None:
        names = ("problem_size", "configs_tried", "last_error")
        message, (problem_size, configs_tried, last_error) = _read(names, args, named)
        super().__init__(
            message
            or f"no configuration worked for {problem_size}; "
            f"expected one of {configs_tried} to run, got {last_error}"
        )
        self.problem_size, self.configs_tried, self.last_error = (
            problem_size,
            configs_tried,
            last_error,
        )


class InternalError(Error, RuntimeError):
    """A fault of dlblas itself: please report it."""


BY_STATUS: dict[int, type[Error]] = {
    1: ShapeMismatchError,
    2: UnsupportedDtypeError,
    3: DeviceError,
    4: ArgumentError,
    5: UnknownOperatorError,
    6: UnsupportedError,
    7: CompileError,
    8: LaunchError,
    9: TuningFailedError,
    10: InternalError,
}
"""dlblas_status of the C ABI → class."""


# Problems that are a TypeError in Python itself: names and numbers of arguments.
_NOT_BOUND = re.compile(
    r"(is not an argument|is missing|is given twice|has too many positional arguments);"
)


def from_status(
    status: int, message: str, op: str, argument: str, expected: str, got: str
) -> Error:
    """The typed error of a failure that the library reports."""
    kind = BY_STATUS.get(status, InternalError)
    if kind is ArgumentError and _NOT_BOUND.match(message.removeprefix(f"{op}: {argument} ")):
        kind = ArgumentTypeError
    return kind.from_library(message, op, argument, expected, got)


if not _typing.TYPE_CHECKING:  # checkers know the names above, and no others
    __getattr__ = _unknown.of(__name__)
