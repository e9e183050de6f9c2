"""The store of tuning results: where it is, what it knows, and keeping it in order.

Read next: docs/architecture.md, src/store/store.hpp.
"""

from __future__ import annotations

from typing import Any

from . import _native

__all__ = ["clear", "ls", "path", "show", "verify"]


def path() -> str:
    """The store's folder; ``info()["cache"]["memory_only_because"]`` says when it is not used."""
    return str(_native.cache_command("path")["path"])


def ls() -> list[dict[str, Any]]:
    """One entry a key: its hash and fields, and how many records and candidates it has."""
    keys: list[dict[str, Any]] = _native.cache_command("ls")["keys"]
    return keys


def show(key: str) -> dict[str, Any]:
    """Every candidate of a key (a hash, or a prefix that only one key has), with raw samples."""
    result: dict[str, Any] = _native.cache_command(f"show {key}")["result"]
    return result


def verify() -> dict[str, Any]:
    """Reads every file strictly, sets bad ones aside, and counts ``good`` and ``bad``."""
    return _native.cache_command("verify")


def clear() -> int:
    """Removes every record; how many there were."""
    return int(_native.cache_command("clear")["removed"])
