"""The wheel's long description: README.md without links that lead nowhere from a package index.

Called by the build backend ([[tool.dynamic-metadata]] in pyproject.toml), in the root of the tree.
In: README.md. Out: the field ``readme``, in which a link to a file of the tree becomes the link's
text and the file's name: the tree has no public URL to link to, and the wheel contains no docs/.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping
from typing import Any

_NOTE = "Files that are named here, such as `docs/install.md`, are in the source tree."
# A link that is neither a URL nor a heading anchor, with or without parentheses around it.
_LINK = re.compile(r"(\(?)\[([^\]\n]+)\]\((?![a-z+]+:|#)([^)\s#]+)(?:#[^)\s]*)?\)(\)?)")


def without_relative_links(text: str) -> str:
    """``[install](docs/install.md)`` becomes ``install (`docs/install.md`)`` outside code.

    A link that fills a pair of parentheses becomes ``(install: `docs/install.md`)``. A link whose
    text is the file's name becomes that name alone."""

    def named(link: re.Match[str]) -> str:
        before, words, path, after = link.groups()
        if words.strip("`") == path:
            return f"{before}`{path}`{after}"
        if before and after:
            return f"({words}: `{path}`)"
        return f"{before}{words} (`{path}`){after}"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    parts[::2] = [_LINK.sub(named, part) for part in parts[::2]]
    return "".join(parts)


def dynamic_metadata(
    settings: Mapping[str, Any], project: Mapping[str, Any]
) -> dict[str, dict[str, str]]:
    """The hook that scikit-build-core calls."""
    text = without_relative_links(pathlib.Path("README.md").read_text(encoding="utf-8"))
    return {"readme": {"text": f"{text.rstrip()}\n\n{_NOTE}\n", "content-type": "text/markdown"}}
