"""docs/reliability.md holds what a whole run of the battery counted, of the faults it has now."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "store_battery"
MARKED = re.compile(r"<!-- battery:begin -->\n(.*?)<!-- battery:end -->", re.DOTALL)


def rows() -> list[list[str]]:
    marked = MARKED.search((ROOT / "docs" / "reliability.md").read_text(encoding="utf-8"))
    assert marked
    lines = [line for line in marked[1].splitlines() if line.startswith("| ")]
    cells = [line.strip("| ").split(" | ") for line in lines]
    return [row for row in cells if row[0] not in ("fault", "attack")]


def test_nothing_was_lost_or_wrongly_used() -> None:
    found = rows()
    assert len(found) > 70
    for row in found:
        assert row[-2:] == ["0", "0"], row
        tried = row[1:-2] if len(row) == 4 else row[2:-2]
        assert any(cell.isdecimal() and int(cell) > 0 for cell in tried), row


def test_at_least_forty_attacks() -> None:
    assert sum(len(row) == 4 for row in rows()) >= 40


@pytest.mark.skipif(not PROGRAM.exists(), reason="store_battery is not built")
def test_the_tables_are_of_this_program() -> None:
    command = [sys.executable, str(ROOT / "tools" / "reliability.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
