"""Each of tests/mutants/*.patch applies and names its test; one of them, drawn by a printed seed,
must be caught.

That one costs a copy of the tree, built through ccache: it gets 80 seconds, and says so if that is
not enough. `make mutate` runs all of them.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PATCHES = sorted((ROOT / "tests" / "mutants").glob("*.patch"))
SECONDS = 80


def test_there_are_at_least_twelve() -> None:
    assert len(PATCHES) >= 12


def test_the_table_is_of_these_and_none_was_missed() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    table = page.split("<!-- mutants:begin -->")[1].split("<!-- mutants:end -->")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if " | " in line][1:]
    assert sorted(row[0] for row in rows) == [path.stem for path in PATCHES]
    assert not [row[0] for row in rows if row[3] == "**nothing**"]


@pytest.mark.skipif(shutil.which("patch") is None, reason="no patch(1)")
@pytest.mark.parametrize("path", PATCHES, ids=lambda p: p.stem)
def test_it_applies_and_names_its_test(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    text = path.read_text(encoding="utf-8")
    head, _, diff = text.partition("--- a/")
    assert ("caught-by: " in head and "builds: " in head) or "device: " in head
    name = diff.splitlines()[0]
    (tmp_path / name).parent.mkdir(parents=True)
    shutil.copy(ROOT / name, tmp_path / name)
    command = ["patch", "-p1", "--forward", "-i", str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert (tmp_path / name).read_bytes() != (ROOT / name).read_bytes()


@pytest.mark.starts_early
@pytest.mark.skipif(shutil.which("ccache") is None, reason="no ccache: a copy takes minutes")
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
def test_one_by_a_printed_seed_is_caught() -> None:
    command = [sys.executable, str(ROOT / "tools" / "mutate.py"), "--sample", "1"]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        said, _ = running.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        pytest.skip(f"the copy was not built within {SECONDS} s; `make mutate` has no limit")
    print(said)
    assert running.returncode == 0, said
