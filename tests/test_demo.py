"""``dlblas demo`` with tiny shapes: what the second process did not have to do, by the library's
counters, and what happens when a promise does not hold."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest

# One pytest-xdist worker runs all of these, so that what they share is built once.
pytestmark = pytest.mark.xdist_group("demo")
ROOT = pathlib.Path(__file__).resolve().parent.parent
OPERATORS = ["matmul", "rms_norm", "add_rms_norm"]


def run_demo(folder: pathlib.Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("DLBLAS_")}
    places = ["--root", str(folder / "root"), "--out", str(folder / "demo.json")]
    command = [sys.executable, "-m", "dlblas", "demo", "--quick", *(words or places)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=900,
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT / "build" / "python"), **env},
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    folder = tmp_path_factory.mktemp("demo")
    for _ in range(2):  # again over what the first left: it starts from an empty store
        done = run_demo(folder)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr == ""
    return json.loads((folder / "demo.json").read_text()), done.stdout


def test_the_first_pass_searches(demo: tuple[dict[str, Any], str]) -> None:
    record, _ = demo
    rows = record["first"]["keys"]
    assert [row["op"] for row in rows] == OPERATORS
    for row in rows:
        assert row["source"] == "tuned"
        assert row["counters"]["measured"] > 1
        assert row["ok"] and 0 < row["error_over_bound"] <= 1
        assert row["vs_rival"] > 0 and row["of_ceiling"] > 0
        assert row["kernel_ms"] > 0
        assert row["implementation"] in {
            c["implementation"] for c in row["candidates"] if c["takes_part"]
        }
    assert record["first"]["counters"]["published"] == len(rows)


def test_the_second_pass_measures_and_compiles_nothing(demo: tuple[dict[str, Any], str]) -> None:
    record, _ = demo
    second = record["second"]
    assert (second["measured"], second["compiled"], second["source"]) == (0, 0, "store")
    assert second["counters"]["measured"] == second["counters"]["compiled"] == 0
    assert second["counters"]["published"] == 0
    assert second["counters"]["store_hits"] >= len(OPERATORS)
    for first, again in zip(record["first"]["keys"], second["keys"], strict=True):
        assert again["ok"] and again["source"] == "store"
        assert (again["implementation"], again["config"]) == (
            first["implementation"],
            first["config"],
        )


def test_a_small_llama_decodes_as_it_prefills(demo: tuple[dict[str, Any], str]) -> None:
    record, text = demo
    llama = record["llama"]
    # With few rows in both, both sum in the same order, so no bit differs.
    assert llama["ok"] and llama["error"] < 1e-4 and llama["largest"] > 0.1
    assert llama["tokens_per_s"] > 0 and abs(sum(llama["shares"].values()) - 1) < 1e-6
    assert {"linear", "silu_and_mul", "paged_attention", "rope_"} <= llama["shares"].keys()
    assert "A small Llama" in text and "tokens/s" in text


def test_it_says_what_it_found(demo: tuple[dict[str, Any], str]) -> None:
    record, text = demo
    machine = record["machine"]
    assert machine["copy_bytes_per_s"] > 1e8 and machine["peak_flops"] > 1e8
    assert machine["devices"][0]["model"] in text
    for library in machine["libraries"]:
        absent = "torch " if library["name"] == "torch" else library["why_not"]  # its own words
        assert (library["version"] if library["found"] else absent) in text
    for row in record["first"]["keys"]:
        assert f"winner    {row['implementation']} {row['config']}" in text
    assert "second pass: measured=0 compiled=0 source=store;" in text
    assert max(map(len, text.splitlines())) <= 140
    assert not re.search(r"\d m?s to ask|\d ms\b", text.partition("A small Llama")[0]), "one unit"


def test_a_refusal_is_shown_with_its_reason(tmp_path: pathlib.Path) -> None:
    done = run_demo(tmp_path, DLBLAS_DISABLE="onednn")
    assert done.returncode == 0, done.stderr
    assert "refused   onednn: " in done.stdout


def test_a_folder_that_cannot_be_used_is_one_line(tmp_path: pathlib.Path) -> None:
    (tmp_path / "root").write_text("")
    done = run_demo(tmp_path)
    assert done.returncode == 2
    assert done.stderr == f"dlblas: {tmp_path / 'root'}: File exists\n"


def test_broken_promises_are_named() -> None:
    from dlblas import demo as module

    good = {"label": "x T=1", "ok": True, "mistrusted": False, "error_over_bound": 0.1}
    first = {"keys": [{**good, "source": "tuned"}], "counters": {"measured": 9, "compiled": 0}}
    second = {"keys": [{**good, "source": "store"}], "counters": {"measured": 0, "compiled": 0}}
    assert module._broken_promises(first, second) == []
    wrong = {
        "keys": [{**good, "ok": False, "error_over_bound": 3.0, "source": "tuned"}],
        "counters": {"measured": 2, "compiled": 1},
    }
    assert module._broken_promises(first, wrong) == [
        "pass 2: x T=1 is off by 3 of its bound",
        "pass 2: x T=1 came from tuned, not from the store",
        "pass 2: measured=2, expected 0",
        "pass 2: compiled=1, expected 0",
    ]


def test_it_leaves_nothing_behind(tmp_path: pathlib.Path) -> None:
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir(), temporary.mkdir()
    done = run_demo(here, "--device", "cpu", TMPDIR=str(temporary))
    assert done.returncode == 0 and "written:" not in done.stdout, done.stderr
    assert not [*here.iterdir(), *temporary.glob("dlblas-demo-*")]
