"""Errors of registration, in the library's grammar. Read next: _register.py."""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError, ArgumentTypeError


def refuse(
    op: str,
    argument: str,
    problem: str,
    expected: str,
    got: object,
    remedy: str,
    kind: type[ArgumentError] = ArgumentError,
) -> Exception:
    message = f"{op}: {argument} {problem}; expected {expected}, got {got}; {remedy}"
    return kind.from_library(message, op, argument, expected, str(got))


def text_of(op: str, argument: str, given: Any) -> str:
    """Returns ``given`` if it is a text that the library can take; raises if not."""
    if not isinstance(given, str):
        raise refuse_type(op, argument, "a text", given, "write one")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise refuse(
            op, argument, "is not valid Unicode", "no lone surrogate", ascii(given), "leave it out"
        ) from None
    if "\0" in given:  # where C's texts end
        raise refuse(
            op, argument, "holds a NUL character", "a text without one",
            f"one at index {given.index(chr(0))}", "leave it out",
        )  # fmt: skip
    return given


def refuse_type(op: str, argument: str, expected: str, got: object, remedy: str) -> Exception:
    return refuse(
        op, argument, "has the wrong type", expected, type(got).__name__, remedy, ArgumentTypeError
    )
