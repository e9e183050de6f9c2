#!/usr/bin/env python3
"""Holds docs/flow.md to the code: the files and functions that one call passes through.

Each row of the page's table names a hop: a file, a function in it, and what it calls next. Fails when
a file or function is not there, a named call is not made by the hop (or a function of its file that it
reaches), the files exceed 8 or together 1,000 lines, or a function on the path calls one that lies in
a file not named. Value types (src/core/, the vectors of cpu/simd.hpp) may be used anywhere; cold exits,
which a warm call never takes, are listed on the page.
"""

from __future__ import annotations

import pathlib
import re
import sys

ROW = re.compile(r"^\| \d+ \| `([^`]+)` \| `([^`]+)` \| (.+?) \|$", re.MULTILINE)
COLD = re.compile(r"^Cold exits[^:]*: (.+)$", re.MULTILINE)
DEFINITION = re.compile(
    r"^(?:template[^\n]*\n)?[A-Za-z_][^\n;#={}]*?\b([A-Za-z_]\w*)\([^;{}]*?\)[^;{}()]*\{",
    re.MULTILINE,
)
METHOD = re.compile(
    r"^  (?:\[\[\w+\]\] )?[A-Za-z_][^\n;#={}()]*?\b([a-z_]\w*)\([^;{}]*?\)[^;{}()]*\{", re.MULTILINE
)
CALL = re.compile(r"(?<![\w.>])((?:\w+::)*[a-z_]\w*)(?:<[^;(){}]*?>)?\(")
POINTER = re.compile(
    r"\b([a-z_]\w*)(?:<[^<>()]*>)?(?:\(|\s*[:;,}])"
)  # called through a member, or handed out
MAX_FILES, MAX_LINES = 8, 1000
VALUE_TYPES = ("src/core/", "cpu/simd")  # a kernel's vectors are its value types


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
            if name not in ("if", "for", "while", "switch", "namespace", "struct", "class"):
                found[name] = found.get(name, "") + source[match.end() : at]
    return found


def definitions(root: pathlib.Path) -> dict[str, set[str]]:
    """Function name → files that define it, over the whole library."""
    where: dict[str, set[str]] = {}
    for folder in ("src", "bindings", "ops", "cpu"):
        for path in sorted((root / folder).rglob("*.[ch]pp")):
            for name in functions(strip(path.read_text(encoding="utf-8"))):
                where.setdefault(name, set()).add(str(path.relative_to(root)))
    return where


def reachable(bodies: dict[str, str], start: str) -> set[str]:
    seen, pending = {start}, [start]
    while pending:
        for name in CALL.findall(bodies[pending.pop()]):
            short = name.split("::")[-1]
            if short in bodies and short not in seen:
                seen.add(short)
                pending.append(short)
    return seen


def check(root: pathlib.Path) -> list[str]:
    page = (root / "docs" / "flow.md").read_text(encoding="utf-8")
    hops = [(f, fn, re.findall(r"`([^`]+)`", after)) for f, fn, after in ROW.findall(page)]
    files = list(dict.fromkeys(f for f, _, _ in hops))
    cold_line = COLD.search(page)
    cold = (
        {w.removesuffix("::") for w in re.findall(r"`([^`]+)`", cold_line.group(1))}
        if cold_line
        else set()
    )
    problems = [f"docs/flow.md: {f} does not exist" for f in files if not (root / f).is_file()]
    if problems or not hops:
        return problems or ["docs/flow.md: has no table of hops"]
    sources = {f: (root / f).read_text(encoding="utf-8") for f in files}
    lines = sum(len(s.splitlines()) for s in sources.values())
    if len(files) > MAX_FILES or lines > MAX_LINES:
        problems.append(
            f"docs/flow.md: one call takes {len(files)} files and {lines} lines; at most {MAX_FILES} and {MAX_LINES}"
        )
    where = definitions(root)
    for name, function, after in hops:
        bodies = functions(strip(sources[name]))
        if function not in bodies:
            problems.append(f"{name}: does not define {function}, which docs/flow.md names")
            continue
        path = reachable(bodies, function)
        called = {c for fn in path for c in CALL.findall(bodies[fn])}
        short = {c for fn in path for c in POINTER.findall(bodies[fn])}
        problems += [
            f"{name}: {function} does not call {hop}, the next hop of docs/flow.md"
            for hop in after
            if hop not in short
        ]
        for call in sorted(called):
            if call.split("::")[0] in cold or call in cold or call.startswith("std::"):
                continue
            homes = where.get(call.split("::")[-1], set())
            if homes and not any(h in files or h.startswith(VALUE_TYPES) for h in homes):
                problems.append(
                    f"{name}: {function} reaches {call}, which lies in {sorted(homes)[0]}, not named in docs/flow.md"
                )
    return problems


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    problems = check(root)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
