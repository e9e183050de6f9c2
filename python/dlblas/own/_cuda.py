"""CUDA source text as an implementation: the library compiles and launches it; no Python runs.

Read next: bindings/c/register_cuda.cpp, device/own.cuh.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ._words import refuse, refuse_type, text_of

_ENTRY = re.compile(r"__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+"
                    r"(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(")  # fmt: skip


def entry_of(op: str, text: str, entry: str | None) -> str:
    """The text's one kernel, or the one that was named."""
    if entry is not None:
        return text_of(op, "entry", entry)
    found = _ENTRY.findall(text)
    if len(found) != 1:
        raise refuse(
            op, "entry", "is not clear", "one __global__ function in the text",
            ", ".join(found) or "none", "name it with entry=",
        )  # fmt: skip
    return str(found[0])


def expressions(op: str, argument: str, given: Any, otherwise: str) -> tuple[str, str, str]:
    """One, two or three integers or texts."""
    if given is None:
        given = otherwise
    parts = [given] if isinstance(given, (str, int)) else given
    fine = isinstance(parts, Sequence) and all(isinstance(p, (str, int)) for p in parts)
    if not fine or not 1 <= len(parts) <= 3:
        raise refuse_type(
            op, argument, "one to three numbers or expressions in letters and knobs", given,
            'write for example ("ceil_div(C, BLOCK)", "T")',
        )  # fmt: skip
    texts = [text_of(op, argument, str(part)) for part in parts] + ["1", "1"]
    return texts[0], texts[1], texts[2]
