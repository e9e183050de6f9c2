"""Shared by the checks in tools/: the tree's C++ files, their includes, a cache of passed checks,
reporting.

Used by tools/check_*.py and tools/lint.py. Every check takes --root, so a test can point it at a
copy.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import re
import sys
from collections.abc import Callable, Iterable

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE_DIRS = ("src", "cpu", "ops", "bindings", "include", "device")
_DRAWN = random.SystemRandom().randrange(1 << 30)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+["<]([^">]+)[">]', re.MULTILINE)
# Comments and literals in one pattern, so that "//" inside a string starts no comment.
_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


def parser(doc: str | None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=(doc or "").split("\n")[0])
    made.add_argument("--root", type=pathlib.Path, default=ROOT)
    return made


def files(
    root: pathlib.Path, suffixes: Iterable[str], dirs: Iterable[str] = SOURCE_DIRS
) -> list[pathlib.Path]:
    """Files below `dirs` with one of `suffixes`, sorted; paths are absolute."""
    found = (p for d in dirs for p in (root / d).rglob("*") if p.suffix in suffixes and p.is_file())
    return sorted(p for p in found if "__pycache__" not in p.parts)


def includes(root: pathlib.Path, path: pathlib.Path) -> list[str]:
    """A file's includes in the tree, relative to its root; generated files keep their name."""
    found = []
    for name in _INCLUDE.findall(path.read_text()):
        for base in (path.parent, root, root / "src", root / "include"):
            if (base / name).is_file():
                inside = (base / name).resolve()
                if inside.is_relative_to(root.resolve()):
                    found.append(str(inside.relative_to(root.resolve())))
                break
        else:
            if name.startswith(("generated/", "dlblas/")):
                found.append(name)
    return found


def readme_python(root: pathlib.Path) -> list[str]:
    """The README's Python code blocks, in order."""
    return re.findall(r"^```python\n(.*?)^```", (root / "README.md").read_text(), re.M | re.S)


def without_comments(text: str) -> str:
    """The text with comments blanked and line breaks kept."""
    return _COMMENT.sub(lambda m: m.group(1) or re.sub(r"[^\n]", " ", m.group(0)), text)


def digest(root: pathlib.Path, path: pathlib.Path, extra: str) -> str:
    """A hash of a file, of all it includes in the tree, and of `extra`."""
    seen, pending = {path}, [path]
    while pending:
        for name in includes(root, pending.pop()):
            header = root / name
            if header.is_file() and header not in seen:
                seen.add(header)
                pending.append(header)
    made = hashlib.sha256(extra.encode())
    for file in sorted(seen):
        made.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return made.hexdigest()


def seed() -> int:
    """The seed that samples are drawn with: DLBLAS_TEST_SEED, else one random per process."""
    told = os.environ.get("DLBLAS_TEST_SEED", "")
    return int(told) if told.isdecimal() else _DRAWN


def run_cached(
    root: pathlib.Path,
    name: str,
    jobs: dict[str, str],
    check: Callable[[str], str],
    most: int | None = None,
) -> list[str]:
    """Runs check(job) in threads for jobs (name -> digest) that have not passed; the problems.

    If more than `most` jobs are pending, runs a random sample of `most` and prints its seed;
    DLBLAS_TEST_DEPTH=full runs all."""
    cache = root / "build" / "checks" / f"{name}.json"
    passed = json.loads(cache.read_text()) if cache.exists() else {}
    todo = [job for job, key in jobs.items() if passed.get(job) != key]
    if most and len(todo) > most and os.environ.get("DLBLAS_TEST_DEPTH") != "full":
        print(f"{name}: {most} of {len(todo)} that are new; DLBLAS_TEST_SEED={seed()} draws them")
        todo = random.Random(f"{name} {seed()}").sample(todo, most)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        results = dict(zip(todo, pool.map(check, todo), strict=True))
    still = {job: key for job, key in jobs.items() if passed.get(job) == key}
    good = still | {job: jobs[job] for job, problem in results.items() if not problem}
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text(json.dumps(good, indent=0))
    return [problem for problem in results.values() if problem]


def check_texts(
    doc: str | None,
    name: str,
    suffixes: Iterable[str],
    dirs: Iterable[str],
    problems_in: Callable[[str, str], list[str]],
    fine: str,
) -> int:
    """Runs ``problems_in(path, text)`` on every file, reports, and returns the exit code.
    ``fine`` describes the files when there are no problems."""
    root = parser(doc).parse_args().root.resolve()
    paths = files(root, suffixes, dirs)
    problems = [
        problem
        for path in paths
        for problem in problems_in(str(path.relative_to(root)), path.read_text(encoding="utf-8"))
    ]
    return report(name, problems, f"{len(paths)} files, {fine}")


def report(name: str, problems: list[str], summary: str) -> int:
    """Prints one line if all is well, else one line per problem; returns the exit code."""
    for problem in problems:
        print(f"{name}: {problem}", file=sys.stderr)
    if not problems:
        print(f"{name}: {summary}")
    return 1 if problems else 0
