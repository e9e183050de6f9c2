#!/usr/bin/env python3
"""Writes docs/cpp_reference.md from the public headers (--update), or reports if it is stale.

In: include/dlblas/*. Out: each header's opening comment, then each public type, function, alias and
macro as declared, under its comment. A declaration without a comment is a problem. A comment covers
all declarations below it up to a blank line, and a type's comment also covers the first members;
data and special members need none. Read next: tools/cpp_declarations.py,
tests/test_public_headers.py.
"""

from __future__ import annotations

import pathlib
import re
import sys

import cpp_declarations
import tree
from cpp_declarations import Declaration

PAGE = "docs/cpp_reference.md"
COMMAND = ".venv/bin/python tools/reference.py --update"
FIRST = ["dlblas.hpp", "operator.hpp", "tensor.hpp", "context.hpp", "tune.hpp", "info.hpp"]
LAST = ["dlblas.h"]
_BARE_TAG = re.compile(r"(?<![`\w])(<[a-z][\w/.]*>)(?!`)")
_SPECIAL = re.compile(r"=\s*delete|=\s*default|operator==|^~|&& other|^friend")


def headers(root: pathlib.Path) -> list[pathlib.Path]:
    found = {p.name: p for p in sorted((root / "include" / "dlblas").iterdir())}
    middle = [name for name in found if name not in FIRST + LAST]
    return [found[name] for name in [*FIRST, *middle, *LAST] if name in found]


def prose(comment: str) -> str:
    """A comment as Markdown; indented lines become a fenced block."""
    out: list[str] = []
    fenced = False
    for line in comment.strip().split("\n"):
        line = re.sub(r"^\s*(///?|/\*+|\*(?!/))\s?", "", line)
        line = re.sub(r"\s*(\*/|-{4,})\s*$", "", line).rstrip()
        if line.startswith("  ") != fenced:
            out.append("\n```text" if not fenced else "```\n")
            fenced = not fenced
        out.append(line if fenced else _BARE_TAG.sub(r"`\1`", line))
    return "\n".join([*out, *(["```"] if fenced else [])]).strip()


def opening(text: str) -> str:
    made = re.match(r"(?://[^\n]*\n)+|/\*.*?\*/", text, re.DOTALL)
    return prose(made[0]) if made else ""


def undocumented(
    found: list[Declaration], owner: str = "", covered: bool = False
) -> list[tuple[int, str]]:
    """Every public declaration that no comment covers: (line, name)."""
    missing = []
    for d in found:
        covered = bool(d.comment or d.after) or (d.grouped and covered)
        missing += undocumented(d.members, f"{owner}{d.name}::", covered)
        if covered or d.kind == "specialization":
            continue
        if not owner or (d.kind == "function" and not _SPECIAL.search(d.text)):
            missing.append((d.line, owner + d.name))
    return missing


def section(path: pathlib.Path) -> str:
    """One header: each type under its own heading, functions grouped as in the header."""
    text = path.read_text(encoding="utf-8")
    language = "c" if path.suffix == ".h" else "cpp"
    out = [f"## `<dlblas/{path.name}>`\n", opening(text) + "\n"]
    groups: list[list[Declaration]] = []
    for d in cpp_declarations.read(text):
        joins = d.grouped and not d.comment and d.kind != "type"
        if groups and (joins or d.kind == groups[-1][-1].kind == "specialization"):
            groups[-1].append(d)
        else:
            groups.append([d])
    for group in groups:
        lines = []
        for d in group:
            end = "" if d.kind == "macro" else ";"
            lines.append(d.text + end + (f"  {d.after}" if d.after else ""))
        if group[0].kind == "type":
            out.append(f"### `{group[0].name}`\n")
        if words := prose(group[0].comment):
            out.append(words + "\n")
        out.append(f"```{language}\n" + "\n".join(lines) + "\n```\n")
    return "\n".join(out)


def page(root: pathlib.Path) -> str:
    paths = headers(root)
    head = f"""# C++ and C reference

Every public declaration, by header: no bodies, nothing private. [The guide](cpp.md) shows how they
are used. The typed functions of `<dlblas/ops.hpp>`, one per operator, are made from the schemas
when the library is built: `make docs` prints them all, and `dlblas --include` names the folder
that has the header.
This page is made from the headers' own comments: edit those, then run `{COMMAND}`.

"""
    index = "".join(f"- [`<dlblas/{p.name}>`](#dlblas{p.name.replace('.', '')})\n" for p in paths)
    return head + index + "\n" + "\n".join(section(p) for p in paths)


def problems_of(root: pathlib.Path) -> list[str]:
    problems = []
    for path in headers(root):
        found = cpp_declarations.read(path.read_text(encoding="utf-8"))
        for line, name in undocumented(found):
            problems.append(f"{path.relative_to(root)}:{line}: {name} has no comment above it")
    made = root / PAGE
    if not made.exists() or made.read_text(encoding="utf-8") != page(root):
        problems.append(f"{PAGE} is behind the headers; run `{COMMAND}`")
    return problems


def main() -> int:
    parser = tree.parser(__doc__)
    parser.add_argument("--update", action="store_true", help="write the page")
    args = parser.parse_args()
    root = args.root.resolve()
    if args.update:
        (root / PAGE).write_text(page(root), encoding="utf-8")
    return tree.report("reference", problems_of(root), f"{len(headers(root))} headers")


if __name__ == "__main__":
    sys.exit(main())
