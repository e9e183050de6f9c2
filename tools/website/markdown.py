"""Pieces of Markdown that the made pages are put together from.

Used by: stage.py, operators.py, python_api.py.
"""

from __future__ import annotations

import re
import textwrap

import figures_gpu


def plain(text: str) -> str:
    """Text in which nothing is Markdown."""
    return re.sub(r"([\\`*_\[\]<>|#~$])", r"\\\1", text)


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def table(head: list[str], rows: list[list[str]]) -> str:
    """Without the columns that say nothing. A bar inside a cell would end it, also within code."""
    if not rows:
        return ""
    cells = [[re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in row] for row in rows]
    kept = [i for i in range(len(head)) if any(row[i] for row in cells)]
    some = [[row[i] for i in kept] for row in cells]
    return figures_gpu.markdown([head[i] for i in kept], some) + "\n"


def fold(text: str, language: str = "text") -> str:
    """Code of long lines, which are read rather than copied."""
    lines = (textwrap.fill(line, 84, subsequent_indent="    ") for line in text.split("\n"))
    return f"```{language}\n" + "\n".join(lines) + "\n```\n\n"


def folded(text: str) -> str:
    """Figures below the picture of them."""
    return f"<details><summary>The figures</summary>\n\n{wide(text)}</details>\n\n"


def wide(text: str) -> str:
    """Around a table of short cells: they do not break, and the table scrolls in its own box."""
    return f'<div class="wide">\n\n{text}\n</div>\n\n'
