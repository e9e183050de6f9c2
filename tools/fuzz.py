#!/usr/bin/env python3
"""Fuzzes every parser of the library: tests/fuzz/fuzz_*.cpp, each with the sources it names.

tools/fuzz.py [--seconds 20] [--only NAME] runs clang's libFuzzer with AddressSanitizer and UBSan,
starting from tests/fuzz/corpus/NAME; new inputs are kept in build/fuzz. Without clang it only
replays the corpora, built with the available C++ compiler, and the last line says so. The command
line, rows of cases.json and the environment are fuzzed from Python, by Hypothesis on
tests/test_fuzz.py, for the same time. tests/fuzz/calls_*.py call the library itself, from Python
with odd arrays and through the C ABI. Exit code 1 on any finding.
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

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOME = ROOT / "tests" / "fuzz"
BUILD = ROOT / "build" / "fuzz"
NAMED = re.compile(r"^// fuzz: (.*)$", re.MULTILINE)
INCLUDES = [f"-I{ROOT / part}" for part in (".", "src", "include", "build/generated/include")]


def sources(target: pathlib.Path) -> list[pathlib.Path]:
    """The sources of a target: itself, and those that its `// fuzz:` comment names."""
    lines = NAMED.findall(target.read_text(encoding="utf-8"))
    return [target, *(ROOT / name for line in lines for name in line.split())]


def has_libfuzzer(compiler: str | None) -> bool:
    if compiler is None:
        return False
    probe = 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) {return 0;}'
    BUILD.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-xc++", "-", "-fsanitize=fuzzer,address", "-o", str(BUILD / "probe")]
    return subprocess.run(command, input=probe, text=True, capture_output=True).returncode == 0


def build(target: pathlib.Path, compiler: str, fuzzer: bool) -> pathlib.Path:
    program = BUILD / (target.stem + ("" if fuzzer else "_replay"))
    wanted = sources(target) if fuzzer else [*sources(target), HOME / "replay.cpp"]
    newest = max(path.stat().st_mtime for path in [*wanted, *(ROOT / "src").rglob("*.hpp")])
    if program.exists() and program.stat().st_mtime > newest:
        return program
    sanitize = "fuzzer,address,undefined" if fuzzer else "address,undefined"
    flags = ["-std=c++20", "-O1", "-g", f"-fsanitize={sanitize}", "-fno-sanitize-recover=all"]
    command = [compiler, *flags, "-DDLBLAS_BUILDING", *INCLUDES, *map(str, wanted)]
    program.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([*command, "-o", str(program), "-ldl", "-lpthread"], check=True)
    return program


def fuzz(target: pathlib.Path, compiler: str, fuzzer: bool, seconds: int, seed: int) -> bool:
    name = target.stem.removeprefix("fuzz_")
    corpus = HOME / "corpus" / name
    program = build(target, compiler, fuzzer)
    command = [str(program), *map(str, sorted(corpus.iterdir()))]
    if fuzzer:
        grown = BUILD / "corpus" / name
        grown.mkdir(parents=True, exist_ok=True)
        limits = [
            f"-max_total_time={seconds}",
            "-max_len=4096",
            "-timeout=10",
            "-rss_limit_mb=2048",
        ]
        words = HOME / f"{name}.dict"
        limits += [f"-dict={words}"] if words.exists() else []
        found = f"-artifact_prefix={BUILD}/{name}-"
        command = [str(program), *limits, f"-seed={seed}", found, str(grown), str(corpus)]
    done = subprocess.run(command, capture_output=True, text=True)
    last = (done.stdout + done.stderr).strip().splitlines()[-1:] or ["no output"]
    print(f"{name}: {'ok' if done.returncode == 0 else 'FAILED'}; {last[0]}", flush=True)
    if done.returncode != 0:
        print(done.stderr[-6000:])
    return done.returncode == 0


PYTHON = {"cli": "command_line", "cases": "row_of_cases", "environment": "environment_of"}


def fuzz_python(name: str, seconds: int, seed: int) -> bool:
    """Runs rounds of Hypothesis, each with its own seed, until time runs out."""
    end, rounds = time.monotonic() + seconds, 0
    examples = 40 if name == "environment" else 1000  # a process an example there
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [str(ROOT / "tests" / "test_fuzz.py"), "-k", PYTHON[name]]
    while time.monotonic() < end:
        own = {"DLBLAS_FUZZ_EXAMPLES": str(examples)}
        done = subprocess.run(
            [*command, f"--hypothesis-seed={seed + rounds}"], env={**os.environ, **own},
            capture_output=True, text=True,
        )  # fmt: skip
        rounds += 1
        if done.returncode != 0:
            print(f"{name}: FAILED by seed {seed + rounds - 1}\n{done.stdout[-6000:]}", flush=True)
            return False
    print(f"{name}: ok; Done {rounds * examples} examples in {seconds} second(s)", flush=True)
    return True


CALLS = {"arrays": "calls_arrays.py", "c_abi": "calls_c_abi.py"}


def fuzz_calls(name: str, seconds: int, seed: int) -> bool:
    command = [sys.executable, str(HOME / CALLS[name]), f"--seconds={seconds}", f"--seed={seed}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="", flush=True)
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=20, help="each target (default %(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(1, 1 << 30))
    parser.add_argument("--only", default="", help="targets whose name contains this")
    args = parser.parse_args()
    clang = shutil.which("clang++")
    fuzzer = has_libfuzzer(clang)
    compiler = clang if fuzzer and clang else shutil.which("c++") or "c++"
    print(f"seed {args.seed}")
    targets = [t for t in sorted(HOME.glob("fuzz_*.cpp")) if args.only in t.stem]
    good = [fuzz(t, compiler, fuzzer, args.seconds, args.seed) for t in targets]
    good += [fuzz_python(n, args.seconds, args.seed) for n in PYTHON if args.only in n]
    good += [fuzz_calls(n, args.seconds, args.seed) for n in CALLS if args.only in n]
    if targets and not fuzzer:
        print("no clang with libFuzzer here: the corpora were replayed, nothing was fuzzed")
    return 0 if good and all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
