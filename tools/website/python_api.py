"""The Python reference: every public name of the package, with its signature and its docstring.

In: dlblas, imported. Out: one document; operators are left out, since each has a page of its own.
Read next: markdown.py, ../make_docs.py.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from .markdown import fold, plain

# Modules whose sections follow the package's own names.
MODULES = ("nn", "hf", "vllm", "own", "errors", "spaces", "cache", "utils", "triton_ops")
# Remarks for readers of the source, left out of the reference.
_FILE_NOTES = re.compile(r"(Raised by|Used by|Read next): .*", re.DOTALL)
_CODE = re.compile(r"``([^`]+)``|`([^`]+)`")


def _spans(text: str) -> str:
    """Text in which only code spans are Markdown."""
    parts, end = [], 0
    for match in _CODE.finditer(text):
        span = " ".join((match[1] or match[2]).split())
        parts += [plain(text[end : match.start()]), f"`{span}`"]
        end = match.end()
    return "".join([*parts, plain(text[end:])])


def prose(doc: str) -> str:
    """A docstring as Markdown; an indented block after ``::`` becomes a code block."""
    made = ""
    words: list[str] = []
    block: list[str] = []
    for line in [*inspect.cleandoc(doc).split("\n"), ""]:
        opened = bool(words) and words[-1].endswith("::")
        if opened and (line.startswith("    ") or not line.strip()):
            block.append(line[4:])
            continue
        if opened:
            made += _block(words, block)
            words, block = [], []
        words.append(line.strip())
    return made + (_block(words, block) if block else _spans("\n".join(words)).rstrip() + "\n\n")


def _block(words: list[str], block: list[str]) -> str:
    code = "\n".join(block).strip("\n")
    return f"{_spans(chr(10).join(words).removesuffix(':'))}\n\n```python\n{code}\n```\n\n"


def _signature(name: str, value: Any) -> str:
    try:
        signature = str(inspect.signature(value))
    except (TypeError, ValueError):  # a builtin's own
        return ""
    signature = re.sub(r"ForwardRef\('([^']*)'[^)]*\)", r"\1", signature)
    signature = re.sub(r"(: |-> )'([^']*)'", r"\1\2", signature).replace("(self, ", "(")
    # A default that is an object prints its address, which would change with every build.
    signature = re.sub(r"<([\w.]+) object at 0x[0-9a-f]+>", r"<\1>", signature)
    return fold(f"{name}{signature}".replace("(self)", "()"), "python")


def _members(value: type) -> Iterator[tuple[str, Any]]:
    for name, member in vars(value).items():
        public = not name.startswith("_") and (callable(member) or isinstance(member, property))
        if public and (getattr(member, "__func__", member).__doc__ or ""):  # not an inherited one
            yield name, member


def _entry(name: str, value: Any) -> str:
    text = f"### {name.rpartition('.')[2]}\n\n"
    if not callable(value):
        return text + prose(f"A value of type ``{type(value).__name__}``.")
    text += _signature(name, value)
    text += prose((value.__doc__ if isinstance(value, type) else inspect.getdoc(value)) or "")
    if not isinstance(value, type):
        return text
    if issubclass(value, Exception):
        kinds = ", ".join(f"`{base.__name__}`" for base in value.__bases__)
        return f"{text}A kind of {kinds}.\n\n"
    for member, function in _members(value):
        if isinstance(function, property):
            text += f"**{plain(member)}** {prose(function.__doc__ or '')}"
        else:
            raw = (
                function.__func__ if isinstance(function, (classmethod, staticmethod)) else function
            )
            text += _signature(f"{name.rpartition('.')[2]}.{member}", raw)
            text += prose(inspect.getdoc(function) or "")
    return text


def _names(module: ModuleType) -> list[str]:
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed, key=str.lower)
    own = (n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__)
    return sorted(name for name in own if not name.startswith("_"))


def page(dlblas: ModuleType, functions: set[str]) -> str:
    """The whole reference. ``functions``: names of the operators' forms, which are left out."""
    text = "# The Python reference\n\nEvery public name but the operators, which have their own "
    text += "[pages](operators/index.md).\n\n## dlblas\n\n"
    for name in _names(dlblas):
        value = getattr(dlblas, name)
        if name not in functions and not isinstance(value, ModuleType):
            text += _entry(f"dlblas.{name}", value)
    for part in MODULES:
        module = __import__(f"dlblas.{part}", fromlist=["_"])
        text += f"## dlblas.{part}\n\n{prose(_FILE_NOTES.sub('', module.__doc__ or ''))}"
        for name in _names(module):
            value = getattr(module, name)
            where = f"{getattr(value, '__module__', module.__name__)}."
            if where.startswith(f"{module.__name__}.") and not isinstance(value, ModuleType):
                text += _entry(f"dlblas.{part}.{name}", value)
    return text
