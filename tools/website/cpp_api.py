"""The page of ``<dlblas/ops.hpp>``: every typed function that the build makes from a schema.

In: the generated header. Out: Markdown, with one heading per operator and each declaration under
its comment. Read next: ../cpp_declarations.py, ../reference.py (the headers written by hand).
"""

from __future__ import annotations

import re

import cpp_declarations

_OPERATOR = re.compile(r"^// (\w+), schema [0-9a-f]+ -*$", re.MULTILINE)
_HEAD = """# Typed functions of C++

What `<dlblas/ops.hpp>` declares, made from the operators' schemas when the library is built: a new
result, the `_out` form into the caller's memory, in-place forms. [The guide](cpp.md) shows how they
are used; [the reference](cpp_reference.md) has every other header.
"""


def page(header: str) -> str:
    """One section per operator, in the header's order."""
    parts = _OPERATOR.split(header.partition("\n}  // namespace")[0])[1:]
    out = [_HEAD]
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        lines: list[str] = []
        for declaration in cpp_declarations.read(text):
            if declaration.comment:
                lines += ["", *declaration.comment.splitlines()]
            lines.append(f"{declaration.text};")
        code = "\n".join(lines).strip()
        out.append(f"## `{name}`\n\n```cpp\n{code}\n```\n")
    return "\n".join(out)
