"""docs/reliability.md holds the counts of a complete battery run, for the faults it has now."""

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


def test_attacks_are_counted(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attacks of pytest, of C++ programs by their own report, and those on a GPU by name only."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import reliability

    program = tmp_path / "program"
    program.write_text(
        "#!/bin/sh\n"
        "for word; do case $word in --gtest_output=json:*) out=${word#*json:};; esac; done\n"
        "cat > $out <<END\n"
        '{"testsuites": [{"testsuite": [{"name": "A", "result": "COMPLETED", "attacked": "41"},\n'
        '{"name": "B", "result": "COMPLETED"}, {"name": "C", "result": "SUPPRESSED"}]}]}\nEND\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(reliability, "CPP", {"views": ("program", "*")})
    (row,) = reliability.cpp_attacks(tmp_path)
    assert (row["tried"], row["broke"]) == (42, 0)
    program.write_text(program.read_text().replace('"41"}', '"41", "failures": [{}]}'))
    assert reliability.cpp_attacks(tmp_path)[0]["broke"] == 1
    gpu = reliability.gpu_attacks()
    assert "hostile candidates on a GPU" in {row["attack"] for row in gpu}
    more = [{"attack": "forks", "test": "tests/test_fork.py::x", "tried": n, "broke": 0}
            for n in (1, 6)]  # fmt: skip
    table = reliability.attacks_table([row, *gpu, *more], "2030-01-31")
    assert "One run of all, 2030-01-31: **49 tried, 0 broke a promise**." in table
    assert "| forks | `test_fork.py` | 7 | 0 |" in table
    assert "| views | `cpp/program.cpp` | 42 | 0 |" in table
    assert "| hostile candidates on a GPU | `test_gpu_worker.py` | on a GPU, not counted" in table


def test_each_file_that_attacks_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """And each attack that its marker names has a row."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import reliability

    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    table = reliability.ATTACKS.search(page)[2]
    for path in map(pathlib.Path, reliability.attack_tests()):
        if path.name == "test_reliability.py":
            continue
        assert f"| `{path.name}` |" in table, f"{path.name} has no row: tools/reliability.py"
        for name in re.findall(r'mark\.attack\("([^"]+)"\)', path.read_text(encoding="utf-8")):
            assert f"| {name} |" in table, f"{name} has no row: tools/reliability.py --attacks"


def test_attacks_on_a_gpu_are_known_by_their_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the marker covers a whole file or one test beside others."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import reliability

    names = {row["attack"] for row in reliability.gpu_attacks()}
    assert names >= {"hostile candidates on a GPU", "the same bits, on a GPU"}
    assert "the same bits in any batch, on any threads" not in names
