"""The store of tuning results: where it is, what it holds, and its maintenance.

Records are moved by ``export`` and ``import_file`` (one sealed file) or ``merge`` (another store's
folder); incoming records are checked one by one. ``pin`` and ``forbid`` are permanent: they hold in
every process until ``unpin`` and ``allow``, and ``dlblas.explain`` says so. Errors are
``dlblas.Error``. Read next: docs/store.md, src/store/store.hpp.
"""

from __future__ import annotations

import os
import typing as _typing
from collections.abc import Mapping
from typing import Any

from . import _native, _options, _unknown, tuning
from ._arguments import hinted
from .errors import ArgumentError

__all__ = [
    "allow",
    "clear",
    "compact",
    "export",
    "forbid",
    "import_file",
    "ls",
    "merge",
    "path",
    "pin",
    "rm",
    "rules",
    "show",
    "unpin",
    "verify",
]


def _run(*words: str) -> dict[str, Any]:
    """Runs one command, its arguments one per line."""
    for word in words:
        if "\n" in word or "\0" in word:
            raise ArgumentError(
                f"cache: argument has a line break; expected one line, got {word!r}; remove it",
                "cache", "argument", "one line", word,
            )  # fmt: skip
    return _native.cache_command("\n".join(words))


def path() -> str:
    """The store's folder; ``info()["cache"]["memory_only_because"]`` says when it is not used."""
    return str(_run("path")["path"])


def ls() -> list[dict[str, Any]]:
    """One entry per key: its hash and fields, and how many records and candidates it has."""
    keys: list[dict[str, Any]] = _run("ls")["keys"]
    return keys


@hinted
def show(key: str) -> dict[str, Any]:
    """Every candidate of a key (a hash, or a prefix that only one key has), with raw samples."""
    result: dict[str, Any] = _run("show", key)["result"]
    return result


def verify() -> dict[str, Any]:
    """Reads every file strictly, sets bad ones aside, and counts records (``good``, ``bad``),
    compiled kernels (``good_cubins``, ``bad_cubins``) and ``bad_rules``. ``clear`` removes what was
    set aside."""
    return _run("verify")


def clear() -> int:
    """Removes all records, compiled kernels and files that were set aside; returns how many there
    were.

    The rules stay.
    """
    return int(_run("clear")["removed"])


@hinted
def rm(key: str | None = None, *, op: str | None = None) -> dict[str, int]:
    """Removes the records of one key, or of every key of an operator.

    ``key`` is a hash, or a prefix that only one key has; ``op`` names the operator. Returns the
    number of ``keys``, and of ``removed`` records. Compiled kernels and rules stay.
    """
    result = _run("rm", key or "", op or "")
    return {name: int(result[name]) for name in ("keys", "removed")}


def compact() -> dict[str, Any]:
    """Rewrites every key's records as fewer ones.

    Returns the numbers of ``keys``, of ``records`` now, and of keys that ``failed``.
    """
    return _run("compact")


@hinted
def export(path: str | os.PathLike[str]) -> int:
    """Writes every record to one sealed file; returns how many there are.

    An existing file at ``path`` is replaced as a whole; anything else there (a link, a folder, a
    device) stays, and raises ArgumentError.
    """
    return int(_run("export", os.fsdecode(path))["records"])


@hinted
def import_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Imports the records of an export.

    Returns how many were new (``imported``), how many were ``known``, and those that were
    ``refused``, one line each. A file that is not a complete export raises ArgumentError.
    """
    return _run("import", os.fsdecode(path))


@hinted
def merge(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Imports the records of another store's folder; returns counts as ``import_file`` does.

    That store is not written to, and bad files in it are refused.
    """
    return _run("merge", os.fsdecode(path))


def _rule(
    verb: str,
    op: str,
    implementation: str,
    config: str | Mapping[str, Any] | None,
    key: str | None,
) -> dict[str, Any]:
    text = tuning._config_text(f"cache.{verb}", config) or ""
    named = {"op": op, "implementation": implementation, **({} if key is None else {"key": key})}
    for argument, value in named.items():
        _options.check_text(f"cache.{verb}", argument, value, "a text")
    if verb in ("forbid", "allow") and config is not None and not text.strip():
        raise _options.refuse(  # a shell's variable that was not set, say
            "cache", "config", "is empty", "one configuration, as 'unroll=2'", "none",
            "leave it out for every configuration",
        )  # fmt: skip
    return _run(verb, op, implementation, text, *([] if key is None else [key]))


@hinted
def pin(
    op: str,
    implementation: str,
    config: str | Mapping[str, Any] | None = None,
    *,
    key: str | None = None,
) -> None:
    """Pins ``op``, or the one problem of ``key``, to an implementation in every process from now
    on.

    ``config`` is its configuration (None: its default). The pin holds on the implementation's own
    kind of device. Where the implementation cannot serve a problem there, it is skipped, and
    ``explain`` says why. ``dlblas.pin`` takes precedence in its own process.
    """
    _rule("pin", op, implementation, config, key)


@hinted
def unpin(op: str, *, key: str | None = None) -> bool:
    """Lifts the pin of an operator, or of one ``key`` of it; returns whether there was one."""
    return bool(_rule("unpin", op, "", None, key)["lifted"])


@hinted
def forbid(
    op: str,
    implementation: str,
    config: str | Mapping[str, Any] | None = None,
    *,
    key: str | None = None,
) -> None:
    """Forbids an implementation, or one configuration of it, in every process from now on.

    It is neither chosen nor measured for ``op``, or for the one problem of ``key``.
    """
    _rule("forbid", op, implementation, config, key)


@hinted
def allow(
    op: str,
    implementation: str,
    config: str | Mapping[str, Any] | None = None,
    *,
    key: str | None = None,
) -> bool:
    """Lifts the ``forbid`` of the same arguments; returns whether there was one."""
    return bool(_rule("allow", op, implementation, config, key)["lifted"])


def rules() -> list[dict[str, Any]]:
    """What is pinned and forbidden, read again; other processes' decisions apply here from then
    on."""
    found: list[dict[str, Any]] = _run("rules")["rules"]
    return found


if not _typing.TYPE_CHECKING:  # checkers know the names above, and no others
    __getattr__ = _unknown.of(__name__)
