#!/usr/bin/env python3
"""Replays a walkthrough: writes each fenced block that names a file to that file in a tree.

tools/follow_doc.py docs/add_an_operator.md TREE. A block opens with ```<language> <path>; paths are
relative to TREE. Refuses to overwrite: a walkthrough only adds files. Prints each path.
"""

from __future__ import annotations

import pathlib
import re
import sys

BLOCK = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def follow(page: pathlib.Path, tree: pathlib.Path) -> list[pathlib.Path]:
    written = []
    for name, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        path = tree / name
        if path.exists():
            raise SystemExit(f"follow_doc: {name} exists; a walkthrough may only add files")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, encoding="utf-8")
        written.append(path)
    return written


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    for path in follow(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
