#!/usr/bin/env python3
"""Holds docs/flow.md to the code: the files and functions that one call passes through.

Each row of the page's table names a hop: a file, a function in it, and what it calls next. Fails
when a file or function is not there, a named call is not made by the hop (or a function of its file
that it reaches), the files exceed 8 or together 1,000 lines, or a function on the path calls one
or makes an object of a class that lies in a file not named. Value types (src/core/, the vectors of
cpu/simd.hpp) may be used anywhere; the page lists the caller's side (what runs behind Context's
function pointers) and cold exits, which a warm call never takes.
"""

from __future__ import annotations

import pathlib
import re
import sys
from typing import NamedTuple

import tree

ROW = re.compile(r"^\| \d+ \| `([^`]+)` \| `([^`]+)` \| (.+?) \|$", re.MULTILINE)
COLD = re.compile(r"^Cold exits[^:]*: (.+)$", re.MULTILINE)
CALLER = re.compile(r"^The caller's side[^:]*: (.+)$", re.MULTILINE)
DEFINITION = re.compile(
    r"^(?:template[^\n]*\n)?[A-Za-z_][^\n;#={}]*?\b([A-Za-z_]\w*)\([^;{}]*?\)[^;{}()]*\{",
    re.MULTILINE,
)
METHOD = re.compile(
    r"^  (?:\[\[\w+\]\] )?[A-Za-z_][^\n;#={}()]*?\b([a-z_]\w*)\([^;{}]*?\)[^;{}()]*\{", re.MULTILINE
)
CALL = re.compile(r"(?<![\w.>])((?:\w+::)*[a-z_]\w*)(?:<[^;(){}]*?>)?\(")
METHOD_CALL = re.compile(r"(?:\.|->)([a-z_]\w*)(?:<[^;(){}]*?>)?\(")
CLASS = re.compile(r"\b([A-Z]\w*)\b")  # a constructor, where the library defines one of that name
# Called through a member, or handed out as a pointer.
POINTER = re.compile(r"\b([a-z_]\w*)(?:<[^<>()]*>)?(?:\(|\s*[:;,}])")
USES = (CALL, METHOD_CALL, CLASS)
# `Kernel (*prepare)(…)`: a call through it goes where the page says, not to a namesake.
FUNCTION_POINTER = re.compile(r"\(\*(\w+)\)\(")
KEYWORDS = {"if", "for", "while", "switch", "namespace", "struct", "class", "alignas"}
STANDARD = {"get"}  # methods of the standard library that bear a name of ours
MAX_FILES, MAX_LINES = 8, 1000
VALUE_TYPES = ("src/core/", "cpu/simd")  # a kernel's vectors are its value types


class Page(NamedTuple):
    sources: dict[str, str]  # file on the path → its text
    cold: set[str]  # namespaces and functions that a warm call never enters
    where: dict[str, set[str]]  # function → the files that define it
    open: set[str]  # files whose functions may be used: named ones, and the caller's side


def strip(source: str) -> str:
    """Without comments and literals, so that braces and names in them do not count."""
    source = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', source)
    source = re.sub(r"'(?:\\.|[^'\\\n])+'", "''", source)
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", source, flags=re.DOTALL)


def functions(source: str) -> dict[str, str]:
    """Name → body of every function defined at file scope or in a class at file scope."""
    found: dict[str, str] = {}
    for pattern in (DEFINITION, METHOD):
        for match in pattern.finditer(source):
            depth, at = 1, match.end()
            while depth and at < len(source):
                depth += {"{": 1, "}": -1}.get(source[at], 0)
                at += 1
            name = match.group(1)
            if name not in KEYWORDS:
                found[name] = found.get(name, "") + source[match.end() : at]
    return found


def definitions(root: pathlib.Path) -> dict[str, set[str]]:
    """Function name → files that define it, over the whole library; a constexpr helper of a plain
    struct is part of the value."""
    where: dict[str, set[str]] = {}
    pointers = set(STANDARD)
    for folder in ("src", "bindings", "ops", "cpu"):
        for path in sorted((root / folder).rglob("*.[ch]pp")):
            source = strip(path.read_text(encoding="utf-8"))
            pointers.update(FUNCTION_POINTER.findall(source) if path.suffix == ".hpp" else [])
            for name in functions(re.sub(r"^  constexpr .*$", "", source, flags=re.MULTILINE)):
                where.setdefault(name, set()).add(str(path.relative_to(root)))
    return {name: homes for name, homes in where.items() if name not in pointers}


def reachable(bodies: dict[str, str], start: str) -> set[str]:
    seen, pending = {start}, [start]
    while pending:
        for name in CALL.findall(bodies[pending.pop()]):
            short = name.split("::")[-1]
            if short in bodies and short not in seen:
                seen.add(short)
                pending.append(short)
    return seen


def check_hop(name: str, function: str, after: list[str], page: Page) -> list[str]:
    bodies = functions(strip(page.sources[name]))
    if function not in bodies:
        return [f"{name}: does not define {function}, which docs/flow.md names"]
    path = reachable(bodies, function)
    mentioned = {c for fn in path for c in POINTER.findall(bodies[fn])}
    problems = [
        f"{name}: {function} does not call {hop}, the next hop of docs/flow.md"
        for hop in after
        if hop not in mentioned
    ]
    used = {c for fn in path for p in USES for c in p.findall(bodies[fn])}
    for call in sorted(used):
        if call.split("::")[0] in page.cold or call.startswith("std::"):
            continue
        homes = page.where.get(call.split("::")[-1], set())
        if homes and not any(h in page.open or h.startswith(VALUE_TYPES) for h in homes):
            home = sorted(homes)[0]
            problems.append(f"{name}: {function} reaches {call} in {home}, not in docs/flow.md")
    return problems


def check(root: pathlib.Path) -> list[str]:
    text = (root / "docs" / "flow.md").read_text(encoding="utf-8")
    hops = [(f, fn, re.findall(r"`([^`]+)`", after)) for f, fn, after in ROW.findall(text)]
    files = list(dict.fromkeys(f for f, _, _ in hops))
    problems = [f"docs/flow.md: {f} does not exist" for f in files if not (root / f).is_file()]
    if problems or not hops:
        return problems or ["docs/flow.md: has no table of hops"]
    cold, caller = COLD.search(text), CALLER.search(text)
    page = Page(
        {f: (root / f).read_text(encoding="utf-8") for f in files},
        {w.removesuffix("::") for w in re.findall(r"`([^`]+)`", cold.group(1))} if cold else set(),
        definitions(root),
        {*files, *(re.findall(r"`([^`]+)`", caller.group(1)) if caller else [])},
    )
    lines = sum(len(s.splitlines()) for s in page.sources.values())
    if len(files) > MAX_FILES or lines > MAX_LINES:
        problems.append(
            f"docs/flow.md: one call takes {len(files)} files and {lines} lines; "
            f"at most {MAX_FILES} and {MAX_LINES}"
        )
    for name, function, after in hops:
        problems += check_hop(name, function, after, page)
    return problems


def main() -> int:
    root = tree.parser(__doc__).parse_args().root
    return tree.report("check_flow", check(root), "the path of docs/flow.md holds")


if __name__ == "__main__":
    sys.exit(main())
