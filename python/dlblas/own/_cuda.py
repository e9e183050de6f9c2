"""CUDA source text as an implementation: the library compiles and launches it; no Python runs.

Read next: bindings/c/register_cuda.cpp, device/own.cuh.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ._words import refuse, refuse_type, text_of

# Everything that is not code: comments, and string and character literals.
_MUTE = re.compile(
    r'//(?:[^\\\n]|\\.)*|/\*.*?(?:\*/|\Z)|R"([^\s()\\]{0,16})\(.*?\)\1"'
    r'|"(?:[^"\\\n]|\\.)*"|(?<!\w)\'(?:[^\'\\\n]|\\.)*\'',
    re.DOTALL,
)
_WORD = re.compile(r'\s*(\w+|""|\[\[[^]]*\]\])\s*')
_NAME = re.compile(r"[A-Za-z_]\w*")


def _code_of(text: str) -> str:
    return _MUTE.sub(lambda found: " " if found[0].startswith("/") else '""', text)


def _after(code: str, at: int) -> int:
    """The position after the parenthesis that closes the one at ``at``, or the end."""
    depth = 0
    for i in range(at, len(code)):
        depth += {"(": 1, ")": -1}.get(code[i], 0)
        if depth == 0:
            return i + 1
    return len(code)


def _name_at(code: str, at: int) -> str | None:
    """The name of the function declared here: the word before its parameters, unless that is an
    attribute (``__launch_bounds__(…)``, or a macro that another word follows)."""
    while found := _WORD.match(code, at):
        at = found.end()
        if not code.startswith("(", at):
            continue
        at = _after(code, at)
        attribute = found[1].startswith("__") or re.match(r"\s*(?!__)[A-Za-z_]", code[at:])
        if not attribute and _NAME.fullmatch(found[1]):
            return found[1]
    return None


def kernels_of(code: str) -> list[str]:
    """The names of the __global__ functions, in order."""
    found = (_name_at(code, here.end()) for here in re.finditer(r"\b__global__\b", code))
    return list(dict.fromkeys(name for name in found if name))


def entry_of(op: str, text: str, entry: str | None) -> str:
    """The text's only kernel, or the one that ``entry`` names."""
    code = _code_of(text)
    found = kernels_of(code)
    known = ", ".join(found) or "none"
    if entry is None:
        if len(found) == 1:
            return found[0]
        raise refuse(
            op, "entry", "is not clear", "one __global__ function in the text", known,
            "name it with entry=",
        )  # fmt: skip
    # The bare name in "space::rows<float>"; a header or a macro may define one not seen here.
    name = text_of(op, "entry", entry).partition("<")[0].strip().rpartition("::")[2]
    hidden = "#include" in re.sub(r"#\s+", "#", code) or "##" in code
    if not _NAME.fullmatch(name) or (name not in _NAME.findall(code) and not hidden):
        raise refuse(
            op, "entry", "is not in the text", f"a __global__ function of it: {known}",
            repr(entry), "name one of these",
        )  # fmt: skip
    return entry


def expressions(op: str, argument: str, given: Any, otherwise: str) -> tuple[str, str, str]:
    """Reads one to three integers or texts; a missing one is "1"."""
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
    if not all(map(str.strip, texts)):
        raise refuse(
            op, argument, "has an empty expression", "numbers or expressions in letters and knobs",
            repr(given), "write a number",
        )  # fmt: skip
    return texts[0], texts[1], texts[2]
