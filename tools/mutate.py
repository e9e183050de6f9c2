#!/usr/bin/env python3
"""Seeds one bug at a time into a copy of the tree and checks that the named test catches it.

tools/mutate.py [--only NAME] [--sample N --seed S]. The header of each tests/mutants/*.patch has
`caught-by: COMMAND` (run in the copy's build folder; it must fail) and `builds: TARGETS`, or
`device:`, which names the GPU check that catches the bug; such a mutant is listed, not run. The
copy is in build/mutants and shares the tree's ccache, so a mutant costs one compilation and one
link. Prints `12/12 caught`; exit code 1 if one is missed. A full run writes the table of
docs/reliability.md.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOME = ROOT / "tests" / "mutants"
PAGE = ROOT / "docs" / "reliability.md"
MARKED = re.compile(r"(<!-- mutants:begin -->\n)(.*?)(<!-- mutants:end -->)", re.DOTALL)


class Mutant(NamedTuple):
    path: pathlib.Path
    what: str
    file: str  # that it is seeded into
    builds: list[str]
    caught_by: str
    device: str


class Outcome(NamedTuple):
    why_not: str  # empty: caught
    seconds: float  # of building it and of its test


def read(path: pathlib.Path) -> Mutant:
    lines, _, diff = path.read_text(encoding="utf-8").partition("--- a/")
    head = dict(line.split(": ", 1) for line in lines.splitlines() if ": " in line)
    what, file = lines.splitlines()[0].rstrip("."), diff.splitlines()[0]
    builds = head.get("builds", "").split()
    return Mutant(path, what, file, builds, head.get("caught-by", ""), head.get("device", ""))


def make_copy(copy: pathlib.Path) -> None:
    """Copies tracked and new files, only where they differ, so an earlier copy's objects stay good.
    Deletes files that the tree no longer has, because the build would find them."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout
    names = {os.fsdecode(name) for name in listed.split(b"\0") if name}
    names = {name for name in names if (ROOT / name).is_file()}
    for name in names:
        here, there = ROOT / name, copy / name
        if there.is_file() and there.read_bytes() == here.read_bytes():
            continue
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(here, there)
        there.chmod(here.stat().st_mode)
    for part in ("src", "bindings", "ops", "cpu", "device", "tests", "tools", "python", "cmake"):
        for path in (copy / part).rglob("*"):
            known = str(path.relative_to(copy)) in names
            if path.is_file() and not known and "__pycache__" not in path.parts:
                path.unlink()


def environment(copy: pathlib.Path) -> dict[str, str]:
    """An environment with the tree's ccache and paths relative to the copy."""
    ccache = os.environ.get("CCACHE_DIR", str(ROOT / "build" / "ccache"))
    path = f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
    own = {"CCACHE_BASEDIR": str(copy), "CCACHE_NOHASHDIR": "1", "CCACHE_DIR": ccache}
    return {**os.environ, **own, "PATH": path}


def configure(copy: pathlib.Path) -> None:
    for shared in (".venv", "build/deps"):
        link, target = copy / shared, ROOT / shared
        link.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not link.exists():
            link.symlink_to(target)
    if (copy / "build" / "build.ninja").exists():
        return
    command = ["cmake", "--preset", "release", "--log-level=NOTICE"]
    subprocess.run(command, cwd=copy, env=environment(copy), check=True, stdout=subprocess.DEVNULL)


def patch(copy: pathlib.Path, mutant: Mutant, reverse: bool = False) -> bool:
    command = ["patch", "-p1", "--quiet", "--forward", "-i", str(mutant.path)]
    command += ["--reverse"] if reverse else []
    return subprocess.run(command, cwd=copy).returncode == 0


def run(copy: pathlib.Path, command: list[str] | str, folder: str = "build") -> tuple[int, str]:
    done = subprocess.run(
        command, cwd=copy / folder, env=environment(copy), shell=isinstance(command, str),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    return done.returncode, done.stdout


def try_mutant(copy: pathlib.Path, mutant: Mutant, jobs: int) -> Outcome:
    """A mutant is caught if its test fails with it and passes without it."""
    build = ["cmake", "--build", ".", f"-j{jobs}", "--target", *mutant.builds]
    for command in (build, mutant.caught_by):
        code, said = run(copy, command)
        if code != 0:
            return Outcome(f"`{command}` fails without it:\n{said[-2000:]}", 0)
    if not patch(copy, mutant):
        return Outcome("its patch does not apply", 0)
    try:
        start = time.monotonic()
        code, said = run(copy, build)
        if code != 0:
            return Outcome(f"it does not build:\n{said[-2000:]}", 0)
        code, said = run(copy, mutant.caught_by)
        why_not = "" if code != 0 else f"`{mutant.caught_by}` passed"
        return Outcome(why_not, time.monotonic() - start)
    finally:
        patch(copy, mutant, reverse=True)


def shown(command: str) -> str:
    """The test that a command runs: its program or file, and the part selected."""
    words = re.search(r"(test_\w+(?:\.py)?|store_battery|dlblas test|fuzz\.py)", command)
    part = re.search(r'(?:--only "?|-k |--gtest_filter=|--impl )([^"]+?)(?:"| --|$)', command)
    return (words[1] if words else command) + (f", {part[1].strip('*')}" if part else "")


def table(mutants: list[Mutant], outcomes: dict[str, Outcome]) -> str:
    caught = sum(not o.why_not for o in outcomes.values())
    lines = [
        f"One run of all: **{caught} of {len(outcomes)} caught**; those of device code are for the "
        "GPU checks.",
        "",
        "| mutant | seeded into | what it does | caught by | seconds |",
        "|---|---|---|---|--:|",
    ]
    for m in mutants:
        outcome = outcomes.get(m.path.stem)
        end = f"{outcome.seconds:.0f}" if outcome else "on a GPU"
        by = shown(m.caught_by or m.device)
        by = by if not outcome or not outcome.why_not else "**nothing**"
        lines.append(f"| {m.path.stem} | `{m.file}` | {m.what} | {by} | {end} |")
    return "\n".join(lines) + "\n"


def write_table(text: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(MARKED.sub(lambda m: m[1] + text + m[3], page), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose name contains this")
    parser.add_argument("--sample", type=int, default=0, help="so many, by --seed")
    parser.add_argument("--seed", type=int, default=random.randrange(1000000))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--copy", type=pathlib.Path, default=ROOT / "build" / "mutants")
    args = parser.parse_args()
    mutants = [read(p) for p in sorted(HOME.glob("*.patch")) if args.only in p.stem]
    here = [m for m in mutants if not m.device]
    if args.sample:
        print(f"seed {args.seed}")
        here = random.Random(args.seed).sample(here, min(args.sample, len(here)))
    make_copy(args.copy)
    configure(args.copy)
    outcomes = {}
    for mutant in here:
        name = mutant.path.stem
        outcome = outcomes[name] = try_mutant(args.copy, mutant, args.jobs)
        state = f"MISSED: {outcome.why_not}" if outcome.why_not else "caught"
        print(f"{name}: {state} ({outcome.seconds:.0f} s)", flush=True)
    for mutant in mutants:
        if mutant.device:
            print(f"{mutant.path.stem}: on a GPU, by {mutant.device}")
    caught = sum(not outcome.why_not for outcome in outcomes.values())
    print(f"{caught}/{len(here)} caught")
    if not args.only and not args.sample:
        write_table(table(mutants, outcomes))
    return 0 if here and caught == len(here) else 1


if __name__ == "__main__":
    sys.exit(main())
