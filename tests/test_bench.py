"""``dlblas bench --quick`` writes complete rows, and tools/figures.py builds tables of the
newest."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from depth import depth_of

# One pytest-xdist worker runs all of these, so that what they share is built once.
pytestmark = pytest.mark.xdist_group("bench")
ROOT = pathlib.Path(__file__).resolve().parent.parent
THREADS = (1, 2) if depth_of().full else (1,)  # every operator, for each
COLUMNS = {
    "what",
    "when",
    "version",
    "commit",
    "dirty",
    "source",
    "cpu",
    "isa",
    "threads",
    "method",
    "op",
    "problem",
    "dtype",
    "ours",
    "peers",
    "ratio",
}


@pytest.fixture(scope="module")
def bench_rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("bench")
    out = folder / "rows.jsonl"
    kept = {key: value for key, value in os.environ.items() if not key.startswith("DLBLAS_")}
    threads = ",".join(map(str, THREADS))
    command = [sys.executable, "-m", "dlblas", "bench", "--quick", "--threads", threads]
    done = subprocess.run(
        [*command, "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=900,
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT / "build" / "python")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_bench_rows_are_whole(bench_rows: list[dict[str, Any]]) -> None:
    assert {row["what"] for row in bench_rows} == {
        "host",
        "python",
        "import",
        "wheel",
        "machine",
        "norm",
        "rows",
        "matmul own",
        "matmul chosen",
        "space",
        "cpu_products",
        "cpu_attention",
        "compile",
    }
    for row in bench_rows:
        assert row.keys() >= COLUMNS, row
        assert row["method"]["quick"] is True
        for side in (row["ours"], *row["peers"]):
            if "missing" in side:
                assert side["missing"]  # with a reason
            elif "median_ms" in side and "min_ms" in side:
                assert 0 < side["min_ms"] <= side["median_ms"]
        if row["ratio"] is not None:
            assert row["ratio"] > 0
    norms = {(r["op"], r["dtype"], r["threads"]) for r in bench_rows if r["what"] == "norm"}
    assert norms == {
        (o, d, t) for o in ("rms_norm", "add_rms_norm") for d in ("f32", "bf16") for t in THREADS
    }
    (space,) = (r for r in bench_rows if r["what"] == "space" and r["threads"] == 1)
    assert 1 < space["ours"]["measured"] <= space["ours"]["valid"]
    assert space["ours"]["config"] != space["peers"][0]["version"]


def test_figures_are_made_from_the_newest_rows(
    bench_rows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import figures

    names = list(figures.TABLES)
    page = "".join(f"<!-- figures:begin {n} -->\nold\n<!-- figures:end {n} -->\n" for n in names)
    fresh = figures.render(page, bench_rows, lambda row: row["source"])
    assert "old" not in fresh and "Stale" not in fresh
    assert figures.render(fresh, bench_rows, lambda row: row["source"]) == fresh
    for row in bench_rows:
        if row["what"] == "norm":
            assert f"| {row['op']} | 4×64 | {row['dtype']} | {row['threads']} | " in fresh
    moved = figures.render(
        page, bench_rows, lambda row: "other" if row["what"] == "norm" else row["source"]
    )
    assert (
        moved.count("**Stale**: the sources behind add_rms_norm, rms_norm have changed since.") == 1
    )
    none = figures.render(page, [], lambda row: row["source"])
    assert none.count("No results for") == len(names)
    with pytest.raises(SystemExit, match="no table speed"):
        figures.render("<!-- figures:begin speed -->\n<!-- figures:end speed -->", [], str)


def test_figures_take_the_newest_row_and_no_quick_one(
    bench_rows: list[dict[str, Any]], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import figures

    row = {**bench_rows[0], "method": {"quick": False}}
    rows = [{**row, "when": "2030-01-02", "ratio": 2}, {**row, "when": "2030-01-01", "ratio": 1}]
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(r) + "\n" for r in [*rows, bench_rows[1]]))
    assert [r["ratio"] for r in figures.newest(tmp_path)] == [2]


def test_rows_of_other_dtypes_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page says which dtype rows have whose table has no column of dtypes."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import figures

    dtypes: dict[str, set[str]] = {}
    for row in figures.newest(ROOT / "benchmarks" / "results"):
        dtypes.setdefault(row["what"], set()).add(row["dtype"])
    gpu = {what for what in dtypes if what.startswith("gpu_")}
    assert {what for what in gpu if dtypes[what] != {"bf16"}} == {"gpu_rows"}
    row = _gpu_row("gpu_rows", "softmax", {"T": 4, "C": 8}, dtype="f16")
    table = figures.figures_gpu.rows_table([row])
    assert "| softmax | 4×8 | f16 | 50 µs | " in table and "| dtype |" in table.splitlines()[0]


def _gpu_row(what: str, op: str, problem: dict[str, Any], **more: Any) -> dict[str, Any]:
    def timed(name: str, ms: float) -> dict[str, Any]:
        return {"name": name, "version": "1", "median_ms": ms, "mad_ms": 0.0}

    return {
        "what": what,
        "when": "2030-01-01T00:00:00+00:00",
        "source": "a",
        "card": "NVIDIA H200",
        "driver": "580",
        "method": {"clock": "graph", "quick": False},
        "op": op,
        "problem": problem,
        "dtype": "bf16",
        "ours": timed("rows", 0.05),
        "variants": [timed("cuda_mma", 0.1)],
        "peers": [
            timed("copy", 0.04),
            timed("inductor", 0.08),
            timed("inductor max-autotune", 0.06),
            timed("cublas", 0.05),
            {"name": "quack", "version": "", "missing": "no such module"},
        ],
        "against": "inductor max-autotune",
        "ratio": 1.2,
        **more,
    }


def test_the_readmes_table_is_of_the_fastest_rival(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import figures

    shape = {"T": 16384, "C": 4096}
    norm = _gpu_row("gpu_norm", "rms_norm", shape, bytes=67108864)
    page = "<!-- figures:begin gpu_top -->\n<!-- figures:end gpu_top -->\n"
    text = figures.render(page, [norm], lambda _: "a")
    line = "| `rms_norm` | 16384×4096 | 50 µs · 1.34 TB/s | `rows` | cublas 50 µs | 1.00× |"
    assert line in text and text.count("| `rms_norm`") == 1
    brief = "The sources of 1 operator have changed [since](docs/figures.md)."
    assert brief in figures.render(page, [norm], lambda _: "b") and brief not in text


def test_another_card_has_a_table_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if its rows are newer; the README shows the card with the most rows."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import figures

    first, second = ({"T": 4096, "C": width} for width in (4096, 8192))
    rows = [
        _gpu_row("gpu_norm", "rms_norm", first, bytes=67108864),
        _gpu_row("gpu_norm", "rms_norm", second, bytes=67108864),
        _gpu_row(
            "gpu_norm", "rms_norm", first, bytes=67108864, card="NVIDIA H100", when="2027-01-01"
        ),
    ]
    page = "<!-- figures:begin gpu_norm -->\nold\n<!-- figures:end gpu_norm -->\n"
    text = figures.render(page, rows, lambda _: "a")
    assert text.index("NVIDIA H200, driver") < text.index("NVIDIA H100, driver")
    top = page.replace("gpu_norm", "gpu_top")
    assert "H100" not in figures.render(top, rows, lambda _: "a")


def test_figures_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import figures

    norm = _gpu_row("gpu_norm", "rms_norm", {"T": 4096, "C": 4096}, bytes=67108864)
    product = {"M": 512, "N": 512, "K": 512}
    large = _gpu_row("gpu_matmul", "matmul", product, flops=2 * 512**3, large=True)
    page = "".join(
        f"<!-- figures:begin {n} -->\nold\n<!-- figures:end {n} -->\n"
        for n in ("gpu_norm", "gpu_matmul")
    )
    text = figures.render(page, [norm, large], lambda _: "a")
    # Inductor's better mode counts; a missing peer shows as a dash.
    assert (
        "| rms_norm | 4096×4096 | 50 µs · 1.34 TB/s | `rows` | 40 µs | 60 µs · 1.20× | – |" in text
    )
    assert "| 512×512×512 | 50 µs · 5 TFLOP/s | `rows` | 50 µs · 5 TFLOP/s | 1.20 | 0.50 |" in text
    assert "NVIDIA H200, driver 580, 2030-01-01; medians of interleaved rounds." in text
    assert "Stale" not in text
    stale = figures.render(page, [norm, large], lambda row: "b" if row is norm else "a")
    assert stale.count("**Stale**") == 1 and "the sources behind rms_norm have" in stale


def test_a_figure_of_a_function_goes_stale_with_the_operators_that_it_is_made_of() -> None:
    import dlblas
    from dlblas.bench.source import family_hash

    info = dlblas.info()
    assert family_hash(info, "gated_mlp", "cuda") != family_hash(info, "no such operator", "cuda")
    moved = json.loads(json.dumps(info))
    for row in moved["operators"]:
        if row["name"] == "paged_attention_lse":
            row["implementations"][0]["source_hash"] = "0-other"
    functions = ("paged_attention", "flash_attention", "matmul")
    assert [family_hash(info, f) != family_hash(moved, f) for f in functions] == [True, True, False]


def test_steps_of_a_model_are_chosen_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    from dlblas import cli

    assert cli.main(["bench", "gpu_llama", "--only", "decode_17"]) != 0
    said = capsys.readouterr().err
    assert "is no step; expected one of prefill_1, decode_1, decode_16, decode_64" in said
