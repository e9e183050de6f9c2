"""String options of modules, checked when the module is constructed, not at its first call."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from ..errors import ArgumentError


def check_offered(module: str, argument: str, value: Any, offered: tuple[str | None, ...]) -> None:
    """Raises ArgumentError for a value not in ``offered``, and suggests the nearest one."""
    if any(value is one or (type(value) is str and value == one) for one in offered):
        return
    names = [str(one) for one in offered if one]
    near = get_close_matches(value, names, 1) if isinstance(value, str) else []
    hint = f"; did you mean {near[0]}" if near else ""
    expected = " or ".join(
        filter(None, [", ".join(map(_shown, offered[:-1])), _shown(offered[-1])])
    )
    raise ArgumentError.from_library(
        f"{module}: {argument} is not offered; expected {expected}, got {value!r}{hint}",
        module, argument, expected, repr(value),
    )  # fmt: skip


def _shown(one: str | None) -> str:
    return "None" if one is None else f'"{one}"'
