#!/usr/bin/env python3
"""Runs the battery on the store and the cubins, and writes its table into docs/reliability.md.

.venv/bin/python tools/reliability.py runs all of it in some minutes; faults that need owners and
mounts need root. --attacks instead runs the attacks on everything else at full size
(DLBLAS_ATTACKS=whole) and writes their table: the tests that report through the fixture `attacked`
or the marker `attack`, and the C++ tests of CPP. Wrong results for the oracle are sampled by
DLBLAS_TEST_SEED; DLBLAS_TEST_DEPTH=full tries all of them and takes a night. For attacks that need
a GPU, the counts come from a GPU run (--gpu KEPT …, written by tools/gpu_check), or the table says
that they are not counted. --calls draws a million calls and writes their table. --check runs
nothing and fails if the page's tables and the program name different faults. Needs the program:
cmake --build build --target store_battery.
Read next: tests/store_battery/main.cpp.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reliability.md"
MARKED = re.compile(r"(<!-- battery:begin -->\n)(.*?)(<!-- battery:end -->)", re.DOTALL)
CALLS = re.compile(r"(<!-- calls:begin -->\n)(.*?)(<!-- calls:end -->)", re.DOTALL)
DRAWN = {  # by tests/fuzz/calls_*.py, and how many of them a whole run draws
    "arrays": ("`__dlpack__`, `__array_interface__`, `__cuda_array_interface__`", 700_000),
    "c_abi": ("`dlblas_*` through ctypes: structs, counts, nulls, device codes", 300_000),
}
# C++ tests that are attacks: program, filter. Each counts as its property `attacked` says, else 1.
CPP = {
    "overlapping views, against brute force": ("test_overlap", "*AgainstBruteForce"),
    "memory that stays: decisions, pins, registrations, calls meanwhile": ("test_memory", "*"),
    "workers' answers: forks, closed and written sockets": ("test_worker_socket", "*"),
    "candidates that remember by address": ("test_tuner", "*RemembersByAddress*"),
    "writes into gaps and guard zones": ("test_tuner_inputs", "Inputs.AWrite*"),
}
ATTACKS = re.compile(r"(<!-- attacks:begin -->\n)(.*?)(<!-- attacks:end -->)", re.DOTALL)
Row = dict[str, Any]


def run(program: pathlib.Path, options: list[str]) -> tuple[int, dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        kept = pathlib.Path(folder) / "battery.json"
        done = subprocess.run([str(program), "--json", str(kept), *options])
        counts = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {"rows": []}
    return done.returncode, counts


def names(rows: list[Row]) -> list[str]:
    """The faults in order, each once."""
    return list(dict.fromkeys(row["fault"] for row in rows))


def table(counts: dict[str, Any]) -> str:
    rows: list[Row] = counts["rows"]
    total = {key: sum(row[key] for row in rows) for key in ("tried", "lost", "wrong", "stopped")}
    attacks = sum(row["of"] == "attack" for row in rows)
    lines = [
        f"A whole run, seed {counts['seed']}: **{total['tried']:,} faults tried, "
        f"{total['lost']} lost, {total['wrong']} wrongly used, {total['stopped']} times the "
        f"library stopped**; {attacks} of the rows are attacks.",
        "",
        "| fault | asserted | tried on results | on cubins | lost | wrongly used |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for name in names(rows):
        of = {row["of"]: row for row in rows if row["fault"] == name}
        if "attack" in of:
            continue
        cells = [name, next(iter(of.values()))["asserted"]]
        for subject in ("results", "cubins"):
            row = of.get(subject)
            cells.append("–" if row is None else row["not_here"] or str(row["tried"]))
        cells += [str(sum(row[key] for row in of.values())) for key in ("lost", "wrong")]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| attack | tried | lost | wrongly used |", "|---|--:|--:|--:|"]
    for row in rows:
        if row["of"] == "attack":
            tried_here = row["not_here"] or row["tried"]
            lines.append(f"| {row['fault']} | {tried_here} | {row['lost']} | {row['wrong']} |")
    return "\n".join(lines) + "\n"


def listed(page: str) -> list[str]:
    """The faults that the page's tables name."""
    marked = MARKED.search(page)
    lines = marked[2].splitlines() if marked else []
    cells = [line[2:].split(" | ")[0] for line in lines if line.startswith("| ")]
    return [cell for cell in cells if cell not in ("fault", "attack")]


def check(program: pathlib.Path) -> int:
    listing = subprocess.run([str(program), "--list"], capture_output=True, text=True, check=True)
    odd = set(listed(PAGE.read_text(encoding="utf-8"))) ^ set(listing.stdout.splitlines())
    if odd:
        print(f"docs/reliability.md names other faults: {sorted(odd)}; run tools/reliability.py")
    return 1 if odd else 0


def attack_tests() -> list[str]:
    """The test files that report attacks."""
    found = sorted((ROOT / "tests").glob("test_*.py"))
    words = ("attacked(", "mark.attack(")
    texts = {str(path): path.read_text(encoding="utf-8") for path in found}
    return [path for path, text in texts.items() if any(word in text for word in words)]


def gpu_attacks() -> list[Row]:
    """Uncounted rows for attacks that need a GPU: those marked in files marked gpu, and in single
    tests marked gpu."""
    found = []
    for path in map(pathlib.Path, attack_tests()):
        text = path.read_text(encoding="utf-8")
        whole = re.search(r"^pytestmark = .*mark\.gpu", text, re.MULTILINE)
        beside = "" if whole else r"@pytest\.mark\.gpu\n@pytest\."
        found += [
            {"attack": name, "test": f"tests/{path.name}::", "tried": None, "broke": 0}
            for name in re.findall(beside + r'mark\.attack\("([^"]+)"\)', text)
        ]
    return found


def cpp_attacks(build: pathlib.Path) -> list[Row]:
    """The rows of the C++ tests of CPP. A failed test is a broken promise."""
    rows = []
    for name, (program, tests) in CPP.items():
        with tempfile.TemporaryDirectory() as folder:
            kept = pathlib.Path(folder) / "tests.json"
            command = [str(build / program), f"--gtest_filter={tests}", "--gtest_brief=1"]
            subprocess.run([*command, f"--gtest_output=json:{kept}"], cwd=folder)
            suites = json.loads(kept.read_text(encoding="utf-8"))["testsuites"]
        ran = [t for suite in suites for t in suite["testsuite"] if t["result"] == "COMPLETED"]
        if not ran:
            raise SystemExit(f"reliability: {program} has no test {tests}")
        tried = sum(int(test.get("attacked", 1)) for test in ran)
        broke = sum("failures" in test for test in ran)
        row = {"attack": name, "test": f"tests/cpp/{program}.cpp::", "tried": tried}
        rows.append({**row, "broke": broke})
    return rows


def attacks_table(rows: list[Row], day: str) -> str:
    """The table of attacks; counts with the same name are summed."""
    lines = []
    for name in dict.fromkeys(row["attack"] for row in rows):
        of = [row for row in rows if row["attack"] == name]
        file = of[0]["test"].split("::")[0].removeprefix("tests/")
        counted = [row for row in of if row["tried"] is not None]
        tried, broke = (sum(row[key] for row in counted) for key in ("tried", "broke"))
        told = f"{tried:,} | {broke}" if counted else "on a GPU, not counted here | –"
        lines.append(f"| {name} | `{file}` | {told} |")
    tried, broke = (sum(row[key] or 0 for row in rows) for key in ("tried", "broke"))
    head = [f"One run of all, {day}: **{tried:,} tried, {broke} broke a promise**.", ""]
    head += ["| attack | test | tried | broke |", "|---|---|--:|--:|"]
    return "\n".join([*head, *sorted(lines)]) + "\n"


def run_attacks(gpu: list[pathlib.Path], build: pathlib.Path) -> int:
    missing = [program for program, _ in CPP.values() if not (build / program).exists()]
    if missing:
        print(f"{', '.join(missing)} are missing; run cmake --build {build}")
        return 2
    begin = time.monotonic()
    rows = cpp_attacks(build)
    with tempfile.TemporaryDirectory() as folder:
        kept = pathlib.Path(folder) / "attacks.json"
        workers = str(max(2, len(os.sched_getaffinity(0))))
        options = ["-q", "-n", workers, "--dist=worksteal", "-p", "no:cacheprovider"]
        options += ["--durations=8", "--attacks", str(kept)]
        command = [sys.executable, "-m", "pytest", *options, *attack_tests()]
        environment = {**os.environ, "DLBLAS_ATTACKS": "whole"}
        code = subprocess.run(command, cwd=ROOT, env=environment).returncode
        here = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else []
    there = [row for path in gpu for row in json.loads(path.read_text(encoding="utf-8"))]
    uncounted = {row["attack"] for row in there}
    rows += [*here, *there, *(row for row in gpu_attacks() if row["attack"] not in uncounted)]
    broke = sum(row["broke"] for row in rows)
    print(f"attacks: {time.monotonic() - begin:.0f} s, {broke} broke a promise")
    if here and code == 0 and broke == 0:
        page = PAGE.read_text(encoding="utf-8")
        page = ATTACKS.sub(
            lambda m: m[1] + attacks_table(rows, time.strftime("%Y-%m-%d")) + m[3], page
        )
        PAGE.write_text(page, encoding="utf-8")
    return code or (0 if here and broke == 0 else 1)


def run_calls(kept: list[pathlib.Path]) -> int:
    """Draws calls, or reads the output of earlier runs, and writes their table."""
    if kept:
        said = "".join(path.read_text(encoding="utf-8") for path in kept)
    else:
        said = ""
        for name, (_, count) in DRAWN.items():
            fuzzer = ROOT / "tests" / "fuzz" / f"calls_{name}.py"
            command = [sys.executable, str(fuzzer), "--calls", str(count)]
            said += subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout
    print(said)
    ok = r"^(\w+): ok; Done (\d+) calls in \d+ second\(s\) by seed (\d+), \d+ answered and (\d+) "
    rows = {row[0]: [int(n) for n in row[1:]] for row in re.findall(ok, said, re.MULTILINE)}
    if set(rows) != set(DRAWN) or "FAILED" in said:
        print("a fuzzer found something, or was ended: no table")
        return 1
    lines = [
        f"One run of each: **{sum(row[0] for row in rows.values()):,} calls, 0 findings**.",
        "",
    ]
    lines += ["| drawn | calls | seed | refused | findings |", "|---|--:|--:|--:|--:|"]
    for name, (what, _) in DRAWN.items():
        calls, seed, refused = rows[name]
        lines.append(f"| {what} | {calls:,} | {seed} | {refused:,} | 0 |")
    page = PAGE.read_text(encoding="utf-8")
    page = CALLS.sub(lambda m: m[1] + "\n".join(lines) + "\n" + m[3], page)
    PAGE.write_text(page, encoding="utf-8")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="are the tables of this program")
    parser.add_argument("--attacks", action="store_true", help="the attacks on everything else")
    parser.add_argument(
        "--gpu", type=pathlib.Path, nargs="*", default=[], metavar="KEPT",
        help="counts that runs on a GPU left: attacks_*.json of tools/gpu_check",
    )  # fmt: skip
    parser.add_argument("--seed", help="of the run (default: random, printed)")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "store_battery")
    parser.add_argument("--from-json", type=pathlib.Path, help="counts of a whole run made before")
    parser.add_argument(
        "--calls", nargs="*", type=pathlib.Path, metavar="SAID",
        help="draw arrays' and the C ABI's calls, or take what runs of tests/fuzz/calls_*.py said",
    )  # fmt: skip
    args = parser.parse_args()
    if args.calls is not None:
        return run_calls(args.calls)
    if args.attacks:
        return run_attacks(args.gpu, args.program.parent)
    if not args.from_json and not args.program.exists():
        print(f"{args.program} is missing; run cmake --build build --target store_battery")
        return 2
    if args.check:
        return check(args.program)
    if args.from_json:
        code, counts = 0, json.loads(args.from_json.read_text(encoding="utf-8"))
    else:
        code, counts = run(args.program, ["--seed", args.seed] if args.seed else [])
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(MARKED.sub(lambda m: m[1] + table(counts) + m[3], page), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
