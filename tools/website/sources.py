"""Makes a page for each file of the tree that some page links to: highlighted, with line numbers.

In: paths in the tree. Out: source/<path>.html in the site. The pages bypass Sphinx, so that the
search finds explanations, not every line of code. Read next: check.py.
"""

from __future__ import annotations

import html
import os
import pathlib
from collections.abc import Iterable

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound

LIGHT, DARK = "a11y-high-contrast-light", "github-dark"
# Suffixes that Pygments does not know, and the file name that it gets instead.
SAME_AS = {".cuh": "a.cpp", ".cu": "a.cpp", ".hpp": "a.cpp", ".h": "a.cpp", ".jsonl": "a.txt"}
# The reader's choice of light or dark, where the theme of the other pages stores it.
SCRIPT = 'document.documentElement.dataset.theme = localStorage.getItem("theme") || "auto";'
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{path}: dlblas</title>
<script>{script}</script>
<link rel="stylesheet" href="{up}source.css">
</head>
<body>
<header><a href="{up}../index.html">dlblas</a><span>{path}</span></header>
<main>{text}</main>
</body>
</html>
"""
STYLE = """
:root { --back: #ffffff; --front: #1f2328; --quiet: #6b7280; --line: #e5e7eb; }
@media (prefers-color-scheme: dark) { html:not([data-theme=light]) {
  --back: #131416; --front: #e6edf3; --quiet: #8b949e; --line: #303335; } }
html[data-theme=dark] { --back: #131416; --front: #e6edf3; --quiet: #8b949e; --line: #303335; }
html { background: var(--back); color: var(--front); }
body { margin: 0; font-family: system-ui, sans-serif; }
header { position: sticky; top: 0; display: flex; flex-wrap: wrap; gap: .25rem 1rem;
  padding: .6rem 1rem; background: var(--back); border-bottom: 1px solid var(--line); }
header a { color: inherit; font-weight: 600; text-decoration: none; }
header span { color: var(--quiet); font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
main { overflow-x: auto; padding: .5rem 1rem 2rem; }
main pre { margin: 0; font: .82rem/1.5 ui-monospace, "DejaVu Sans Mono", monospace; }
main .highlight, main .highlight pre { background: none !important; }
main a { text-decoration: none; }
main .linenos { color: var(--quiet) !important; background: none !important; user-select: none;
  padding-right: 1rem; }
"""


def _lexer(path: pathlib.Path) -> object:
    try:
        return get_lexer_for_filename(SAME_AS.get(path.suffix, path.name))
    except ClassNotFound:
        return TextLexer()


def style() -> str:
    """The stylesheet of both themes; dark if the reader or the system selects it."""
    light = HtmlFormatter(style=LIGHT).get_style_defs("main .highlight")
    dark = HtmlFormatter(style=DARK)
    asked = dark.get_style_defs("html[data-theme=dark] main .highlight")
    by_system = dark.get_style_defs("html:not([data-theme=light]) main .highlight")
    return f"{light}\n{asked}\n@media (prefers-color-scheme: dark) {{\n{by_system}\n}}\n{STYLE}"


def write_pages(root: pathlib.Path, out: pathlib.Path, paths: Iterable[str]) -> None:
    """Writes one page per path, and the stylesheet that they share."""
    folder = out / "source"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "source.css").write_text(style(), encoding="utf-8")
    formatter = HtmlFormatter(linenos="inline", anchorlinenos=True, lineanchors="L")
    for path in sorted(set(paths)):
        text = (root / path).read_text(encoding="utf-8")
        up = "../" * (len(pathlib.PurePath(path).parts) - 1)
        body = highlight(text, _lexer(pathlib.Path(path)), formatter)
        made = folder / f"{path}.html"
        os.makedirs(made.parent, exist_ok=True)
        page = PAGE.format(path=html.escape(path), script=SCRIPT, up=up, text=body)
        made.write_text(page, encoding="utf-8")
