#!/usr/bin/env python3
"""Runs every check of the tree: our own (tools/check_*.py), clang-format, clang-tidy names, ruff,
mypy, codespell.

`make lint` runs it, `make format` runs it with --fix. Checks of single files cache their passes in
build/checks.
"""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import time

import check_headers
import tree

BIN = pathlib.Path(sys.executable).parent
MAX_SOURCES = 48  # sources that clang-tidy reads in a run, three seconds each
CPP = ["src", "cpu", "ops", "bindings", "include", "tests", "examples", "tools", "benchmarks"]


def tool(name: str) -> str:
    """The tool installed beside this Python, else the one on PATH."""
    return str(BIN / name) if (BIN / name).exists() else shutil.which(name) or name


def tidy_names(root: pathlib.Path) -> list[str]:
    """Runs clang-tidy on each source, which also covers the headers that it includes."""
    rules = (root / ".clang-tidy").read_text()

    def check(path: str) -> str:
        flags = ["-std=c++20", "-DDLBLAS_BUILDING", *check_headers.compile_flags(root, path)]
        command = [tool("clang-tidy"), "--quiet", str(root / path), "--", *flags]
        done = subprocess.run(command, capture_output=True, text=True, cwd=root)
        return done.stdout.replace(f"{root}/", "").strip() if done.returncode else ""

    sources = [str(p.relative_to(root)) for p in tree.files(root, [".cpp"])]
    jobs = {path: tree.digest(root, root / path, rules) for path in sources}
    return tree.run_cached(root, "names", jobs, check, MAX_SOURCES)


def commands(root: pathlib.Path, fix: bool) -> dict[str, list[str]]:
    cpp = [
        str(p.relative_to(root))
        for p in tree.files(root, [".cpp", ".hpp", ".h", ".cuh"], CPP)
        if "golden" not in p.parts  # what the generator writes, to the letter
    ]
    python = [
        str(p.relative_to(root))
        for p in tree.files(root, [".py"], ["python", "ops", "tests", "tools"])
    ]
    made = {
        "clang-format": [
            tool("clang-format"),
            *(["-i"] if fix else ["--dry-run", "-Werror"]),
            *cpp,
        ],
        "ruff": [tool("ruff"), "check", "--quiet", *(["--fix"] if fix else []), *python],
        "ruff format": [tool("ruff"), "format", *([] if fix else ["--check"]), *python],
    }
    if fix:
        return made
    made["mypy"] = [tool("mypy"), "--no-error-summary"]
    made["codespell"] = [tool("codespell"), "."]
    made["figures"] = [sys.executable, str(root / "tools" / "figures.py"), "--check"]
    for path in sorted((root / "tools").glob("check_*.py")):
        made[path.stem] = [sys.executable, str(path)]
    return made


def main() -> int:
    parser = tree.parser(__doc__)
    parser.add_argument("--fix", action="store_true", help="format and repair in place")
    args = parser.parse_args()
    root = args.root.resolve()
    failed = []

    def run(command: list[str]) -> tuple[subprocess.CompletedProcess[str], float]:
        start = time.monotonic()
        done = subprocess.run(command, cwd=root, capture_output=True, text=True)
        return done, time.monotonic() - start

    made = commands(root, args.fix)
    jobs = 1 if args.fix else os.cpu_count() or 1  # what repairs a file runs alone
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for name, (done, seconds) in zip(made, pool.map(run, made.values()), strict=True):
            state = "FAILED" if done.returncode else "ok"
            told = "" if done.returncode else f" {done.stdout.strip()}"  # a line a check
            print(f"lint: {name}: {state} ({seconds:.1f} s){told}", flush=True)
            if done.returncode:
                failed.append(name)
                print(done.stdout + done.stderr, end="", flush=True)
    if not args.fix:
        start = time.monotonic()
        problems = tidy_names(root)
        print("\n".join(problems), end="\n" if problems else "")
        state = "FAILED" if problems else "ok"
        print(f"lint: clang-tidy names: {state} ({time.monotonic() - start:.1f} s)")
        failed += ["clang-tidy names"] if problems else []
    print(f"lint: {'failed: ' + ', '.join(failed) if failed else 'all clean'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
