"""Errors of registration, in the library's grammar. Read next: _register.py."""

from __future__ import annotations

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


def refuse_type(op: str, argument: str, expected: str, got: object, remedy: str) -> Exception:
    return refuse(
        op, argument, "has the wrong type", expected, type(got).__name__, remedy, ArgumentTypeError
    )
