#!/usr/bin/env python3
"""Checks that the files named by "Read next: …" exist.

A path is relative to the tree, to src/ or ops/, or to the file's folder or one above it; a bare
name may be in any folder.
"""

from __future__ import annotations

import re
import sys

import tree

DIRS = (*tree.SOURCE_DIRS, "python", "tests", "tools", "benchmarks", "examples")
SUFFIXES = (".hpp", ".cpp", ".cuh", ".h", ".py")
NEXT = re.compile(r"Read next:(.*?)(?:\n\s*\n|\n#pragma|\n#include|\"\"\"|\*/|\Z)", re.DOTALL)
FILE = re.compile(r"[\w./*<>{}-]*\w(?:\.hpp|\.cpp|\.cuh|\.h|\.py|\.cmake|\.md)(?!\w)")
FIRST = 4000  # characters of a file that may say it


def said_in(text: str) -> list[str]:
    """The files that a text names to read next; name patterns are left out."""
    found = NEXT.search(text[:FIRST])
    if found is None:
        return []
    words = re.sub(r"\s*\n[ \t]*(?://|#)?[ \t]*", " ", found[1])
    words = re.split(r"\.(?:\s|$)", words)[0]
    paths = (path.rstrip(",.") for path in FILE.findall(words))
    return [path for path in paths if not any(sign in path for sign in "*<>{")]


def main() -> int:
    root = tree.parser(__doc__).parse_args().root
    known = tree.files(root, (*SUFFIXES, ".cmake", ".md"), (*DIRS, "docs", "cmake"))
    names = {path.name for path in known}
    problems = []
    for path in tree.files(root, SUFFIXES, DIRS):
        folder = path.parent.relative_to(root)
        bases = [root / base for base in (folder, *folder.parents, "src", "ops")]
        for said in said_in(path.read_text(encoding="utf-8")):
            if said in names or any((base / said).is_file() for base in bases):
                continue
            problems.append(f"{path.relative_to(root)}: Read next: {said} is not there")
    return tree.report("files that are read next", problems, f"{len(known)} files")


if __name__ == "__main__":
    sys.exit(main())
