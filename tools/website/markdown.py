"""Building blocks of Markdown for the generated pages.

Used by: stage.py, operators.py, python_api.py.
"""

from __future__ import annotations

import re
import textwrap

import figures_gpu


def plain(text: str) -> str:
    """The text with all Markdown escaped."""
    return re.sub(r"([\\`*_\[\]<>|#~$])", r"\\\1", text)


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table without its empty columns. A bar in a cell is escaped: it would end the cell."""
    if not rows:
        return ""
    cells = [[re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in row] for row in rows]
    kept = [i for i in range(len(head)) if any(row[i] for row in cells)]
    some = [[row[i] for i in kept] for row in cells]
    return figures_gpu.markdown([head[i] for i in kept], some) + "\n"


def fold(text: str, language: str = "text") -> str:
    """A code block with long lines wrapped, for code that is read rather than copied."""
    lines = (textwrap.fill(line, 84, subsequent_indent="    ") for line in text.split("\n"))
    return f"```{language}\n" + "\n".join(lines) + "\n```\n\n"


def folded(text: str) -> str:
    """Figures, collapsed, to go below their picture."""
    return f"<details><summary>The figures</summary>\n\n{wide(text)}</details>\n\n"


def wide(text: str) -> str:
    """Wraps a table of short cells: they do not break, and the table scrolls in its own box."""
    return f'<div class="wide">\n\n{text}\n</div>\n\n'
