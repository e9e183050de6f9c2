"""Checks a built site: every link resolves, and no page fetches anything from another site.

In: the folder of the site. Out: problems, one line each. Links inside the site are followed,
including the part after #; links to other sites are only checked for form. Used by:
../make_docs.py.
"""

from __future__ import annotations

import json
import pathlib
import re
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote, urlsplit

# Elements whose URL a browser fetches by itself.
FETCHED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
_IN_STYLE = re.compile(r"url\(\s*['\"]?((?:https?:)?//[^)'\"]+)|@import\s+['\"]((?:https?:)?//)")
# A tag; quotes may hold anything but quotes. Most tags of a page of code are spans without a link.
_TAG = re.compile(r"</?[a-z][^<>\"]*(?:\"[^\"]*\"[^<>\"]*)*>")
_TELLS = re.compile(r"\s(?:id|name|href|src)=|^</(?:script|style)")
_INDEX = re.compile(r"Search\.setIndex\((.*)\)\s*;?\s*$", re.DOTALL)


class Page(HTMLParser):
    """What a page links to, what it fetches, and which anchors it has."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.feed("".join(tag for tag in _TAG.findall(text) if _TELLS.search(tag)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if FETCHED.get(tag) in values and values.get("rel") != "canonical":
            self.fetched.append(values[FETCHED[tag]])


def search_index(site: pathlib.Path) -> Any:
    """Sphinx's index: docnames, titles, terms."""
    found = _INDEX.search((site / "searchindex.js").read_text(encoding="utf-8"))
    if found is None:
        raise ValueError("searchindex.js is not Sphinx's")
    return json.loads(found[1])


def _outside(name: str, link: str) -> list[str]:
    """Problems of a link to another site, of which only the form is checked."""
    parts = urlsplit(link)
    if parts.scheme == "mailto" and "@" in parts.path:
        return []
    good = parts.scheme == "https" and "." in parts.netloc and not set(link) & set(' "<>')
    return [] if good else [f"{name}: {link} is no https address"]


def problems(site: pathlib.Path) -> list[str]:
    """Everything that is wrong with the site; empty if nothing is."""
    paths = sorted(site.rglob("*.html"))
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in paths}
    found = []
    for path, page in pages.items():
        name = str(path.relative_to(site.resolve()))
        for link in page.fetched:
            if urlsplit(link).netloc or link.startswith("//"):
                found.append(f"{name}: fetches {link}")
            elif not (path.parent / unquote(urlsplit(link).path)).exists():
                found.append(f"{name}: fetches {link}, which is not there")
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                found += _outside(name, link)
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not there.is_file():
                found.append(f"{name}: {link} leads nowhere")
                continue
            anchor = unquote(parts.fragment)
            if anchor and there in pages and anchor not in pages[there].anchors:
                found.append(f"{name}: {link} names no place of that page")
    for style in sorted(site.rglob("*.css")):
        if _IN_STYLE.search(style.read_text(encoding="utf-8")):
            found.append(f"{style.relative_to(site)}: fetches from another site")
    return found
