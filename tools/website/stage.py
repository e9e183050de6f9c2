"""Copies the tree's Markdown to where Sphinx reads it, with links that work on the site.

In: docs/**.md, README.md of the tree and of folders, CHANGELOG.md, CONTRIBUTING.md. Out: one
document per page. A link to a page becomes a link to its document; a link to any other file, or a
code span that names one, becomes a link to its text (sources.py). The pages themselves stay plain:
all their links also work in the repository. docs/index.md is the first page, and its lists are the
site's navigation. Read next: operators.py, ../make_docs.py.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Callable
from typing import NamedTuple

from .markdown import folded, wide

# Folders whose README.md are pages.
FOLDERS = ("ops", "benchmarks", "examples", "device", "cpu", "src", "bindings", "tests", "tools")
ROOT_PAGES = {"README.md": "overview", "CONTRIBUTING.md": "contributing", "CHANGELOG.md": "changes"}
# Generated pages in the lists of the first page: marker → document.
MADE = {
    "<!-- operators -->": "operators/index",
    "<!-- python reference -->": "python_reference",
    "<!-- cpp operators -->": "cpp_operators",
}
MORE = "More"

_FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
_TOKEN = re.compile(r"\[((?:[^\[\]`]|`[^`]*`)*)\]\(([^()\s]+)\)|`([^`\n]+)`")
_SCHEME = re.compile(r"^[a-z][a-z+.-]*:")
_FIGURES = re.compile(r"<!-- figures:begin (\S+) -->\n(.*?)<!-- figures:end \S+ -->", re.DOTALL)
_LISTED = re.compile(r"^[-*] \[([^\]]+)\]\(([^)\s]+)\)")


class Broken(NamedTuple):
    """A broken link."""

    page: str
    target: str


class Entry(NamedTuple):
    """A line of the navigation."""

    page: str  # in the tree; "" where it is made
    text: str  # "": the document's own title
    document: str


def find_pages(root: pathlib.Path) -> dict[str, str]:
    """Path in the tree → name of the document."""
    pages = {path: name for path, name in ROOT_PAGES.items() if (root / path).is_file()}
    for path in sorted((root / "docs").rglob("*.md")):
        name = path.relative_to(root / "docs").with_suffix("")
        pages[str(path.relative_to(root))] = str(name)
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("README.md")):
            inside = path.parent.relative_to(root)
            family = len(inside.parts) == 2 and inside.parts[0] == "ops"
            pages[str(path.relative_to(root))] = (
                f"families/{inside.name}" if family else str(inside)
            )
    return pages


class Stage:
    """One run: the pages, and the files that they link to."""

    def __init__(self, root: pathlib.Path, out: pathlib.Path) -> None:
        self.root, self.out = root, out
        self.pages = find_pages(root)
        self.sources: set[str] = set()  # files of the tree that need a page of their own
        self.broken: list[Broken] = []
        self.picture: Callable[[str], str] = lambda _: ""  # of a table of figures, by its name

    def source_link(self, path: str, document: str) -> str:
        """The link from a document to a file's text; records that the text needs a page."""
        self.sources.add(path)
        return os.path.relpath(f"source/{path}.html", os.path.dirname(document) or ".")

    def _find(self, target: str, page: str) -> str | None:
        """The path in the tree for a path that a page writes; None if there is no such file."""
        for base in (os.path.dirname(page), "", "src", "python/dlblas"):
            path = os.path.normpath(os.path.join(base, target))
            if not path.startswith("..") and (self.root / path).exists():
                return path
        return None

    def _link(self, text: str, target: str, page: str, document: str) -> str:
        if _SCHEME.match(target) or target.startswith("#"):
            return f"[{text}]({target})"
        path, mark, anchor = target.partition("#")
        found = os.path.normpath(os.path.join(os.path.dirname(page), path))
        if not (self.root / found).exists():
            self.broken.append(Broken(page, target))
            return f"[{text}]({target})"
        readme = os.path.normpath(os.path.join(found, "README.md"))
        found = readme if readme in self.pages else found
        if found in self.pages:
            there = os.path.relpath(f"{self.pages[found]}.md", os.path.dirname(document) or ".")
            return f"[{text}]({there}{mark}{anchor})"
        if (self.root / found).is_dir():
            return text
        return f'<a class="source" href="{self.source_link(found, document)}">{text}</a>'

    def _code(self, code: str, page: str, document: str) -> str:
        """A code span that names a file becomes a link to it."""
        looks_like_one = re.fullmatch(r"[\w./-]+\.\w+", code) is not None
        found = self._find(code, page) if looks_like_one else None
        if found is None or not (self.root / found).is_file():
            return f"`{code}`"
        if found in self.pages:
            there = os.path.relpath(f"{self.pages[found]}.md", os.path.dirname(document) or ".")
            return f"[`{code}`]({there})"
        return f'<a class="source" href="{self.source_link(found, document)}">`{code}`</a>'

    def rewrite(self, text: str, page: str, document: str) -> str:
        """The page's text with its links rewritten for the site."""

        def replace(match: re.Match[str]) -> str:
            if match[3] is not None:
                return self._code(match[3], page, document)
            return self._link(match[1], match[2], page, document)

        lines, fence = [], ""
        for line in text.split("\n"):
            opened = _FENCE.match(line)
            if fence:
                fence = "" if line.strip() == fence else fence
            elif opened:
                fence = opened[1]
            elif not line.startswith("#"):
                line = _TOKEN.sub(replace, line)
            lines.append(line)
        return "\n".join(lines)

    def write(self, document: str, text: str) -> None:
        path = self.out / f"{document}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def copy_pages(self, made: dict[str, Callable[[str], str]]) -> None:
        """Copies every page. ``made[target](document)`` is the text that replaces the marker of
        ``target`` in a document, with links relative to that document."""
        first = "docs/index.md"
        contents = (self.root / first).read_text(encoding="utf-8")
        title = contents.partition("\n")[0]
        entries = [entry for part in self._parts(contents, first).values() for entry in part]
        named = {entry.page: entry.text for entry in entries}
        for page, document in self.pages.items():
            text = (self.root / page).read_text(encoding="utf-8")
            if page in named and text.startswith(f"{title}\n"):  # one page has the site's name
                text = f"# {named[page]}{text.removeprefix(title)}"
            staged = _FIGURES.sub(self._figures, self.rewrite(text, page, document))
            for marker, target in MADE.items():
                if marker in staged:
                    staged = staged.replace(marker, made[target](document))
            if page == first:
                staged += self._navigation(contents, page)
            self.write(document, staged)

    def _figures(self, match: re.Match[str]) -> str:
        """A table with its picture above it, if it has one."""
        picture = self.picture(match[1])
        return picture + folded(match[2]) if picture else wide(match[2])

    def _parts(self, text: str, page: str) -> dict[str, list[Entry]]:
        """The first page's lists of links to pages, by the heading above each."""
        parts: dict[str, list[Entry]] = {}
        heading = ""
        for line in text.split("\n"):
            if line.startswith("## "):
                heading = line[3:].strip()
            entry = _LISTED.match(line)
            if line.strip() in MADE:
                parts.setdefault(heading, []).append(Entry("", "", MADE[line.strip()]))
            elif entry and heading:
                target = os.path.normpath(os.path.join(os.path.dirname(page), entry[2]))
                if target in self.pages:
                    found = Entry(target, entry[1], self.pages[target])
                    parts.setdefault(heading, []).append(found)
        return parts

    def _navigation(self, text: str, page: str) -> str:
        """Hidden toctrees, one per list, with its caption; pages in no list come last."""
        parts = self._parts(text, page)
        listed = {page, *(entry.page for part in parts.values() for entry in part)}
        rest = [Entry(p, "", name) for p, name in self.pages.items() if p not in listed]
        made = ""
        for caption, entries in [*parts.items(), *([(MORE, rest)] if rest else [])]:
            titles = [
                (e.text.replace("`", ""), e.document) for e in entries
            ]  # no code in a toctree
            lines = "\n".join(f"{text} <{name}>" if text else name for text, name in titles)
            made += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n"
        return made
