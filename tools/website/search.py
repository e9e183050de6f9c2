"""The site's own search: an index of words and excerpts, ranked in the browser by static/search.js.

In: the built pages. Out: _static/pages.js, a script rather than a request, so a page opened from a
folder can load it too. Sphinx's index ranks only by title and has no excerpts offline. Used by:
../make_docs.py.
"""

from __future__ import annotations

import json
import pathlib
import re
from html.parser import HTMLParser
from typing import Any

_SKIPPED = {"script", "style", "nav", "svg", "annotation"}
_HEADINGS = {"h1", "h2", "h3", "h4"}
_MAX_TEXT = 30_000  # characters of a page that are looked at


class _Text(HTMLParser):
    """An article's headings, and its text in the order of the page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.headings: list[list[str]] = []
        self.words: list[str] = []
        self.inside = 0  # of the article
        self.skipped = 0
        self.heading = False
        self.anchor = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "article":
            self.inside += 1
        elif tag in _SKIPPED:
            self.skipped += 1
        elif tag == "section":
            self.anchor = values.get("id", "")
        elif tag in _HEADINGS and self.inside:
            self.heading = True
            self.headings.append([self.anchor, ""])
        elif tag in ("p", "li", "td", "th", "pre", "div"):
            self.words.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == "article":
            self.inside -= 1
        elif tag in _SKIPPED:
            self.skipped -= 1
        elif tag in _HEADINGS:
            self.heading = False

    def handle_data(self, data: str) -> None:
        if not self.inside or self.skipped:
            return
        if self.heading:
            self.headings[-1][1] += data.replace("#", "").replace("¶", "")
        else:
            self.words.append(data)


def entry(path: str, text: str) -> dict[str, Any]:
    """One page: address, title, headings with their anchors, text."""
    read = _Text(text)
    words = re.sub(r"\s+", " ", "".join(read.words)).strip()
    title = read.headings[0][1].strip() if read.headings else path
    rest = [[anchor, name.strip()] for anchor, name in read.headings[1:]]
    return {"u": path, "t": title, "h": rest, "b": words[:_MAX_TEXT]}


def write_index(site: pathlib.Path) -> None:
    pages = []
    for path in sorted(site.rglob("*.html")):
        name = str(path.relative_to(site))
        if name.startswith("source/") or name in ("search.html", "genindex.html"):
            continue
        pages.append(entry(name, path.read_text(encoding="utf-8")))
    text = json.dumps(pages, ensure_ascii=False, separators=(",", ":"))
    (site / "_static" / "pages.js").write_text(f"window.dlblasPages={text};\n", encoding="utf-8")
