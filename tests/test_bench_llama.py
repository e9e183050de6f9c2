"""``dlblas bench gpu_llama`` as far as it runs without a GPU: a small decoder on the CPU."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

torch = pytest.importorskip("torch")


class _Session:
    quick, seconds, rounds = True, 0.1, 2
    left_out = ""

    def late(self) -> bool:
        return False

    def wants(self, step: str) -> bool:
        return step != self.left_out

    def shares(self) -> bool:
        return True


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    from dlblas.bench import gpu_llama
    from dlblas.bench.timing import Samples

    def times(steps: Any, rounds: int) -> Any:
        for step in steps.values():
            step()
        return {name: Samples([5.0] * rounds, 1) for name in steps}, {}

    monkeypatch.chdir(pathlib.Path(__file__).resolve().parent.parent)
    monkeypatch.setattr(gpu_llama, "_DEVICE", "cpu")
    monkeypatch.setattr(gpu_llama, "_COMPILED", {"backend": "eager"})
    monkeypatch.setattr(gpu_llama, "_times", times)
    return gpu_llama


def test_prefill_and_decode_are_measured_beside_torch(bench: Any) -> None:
    made = list(bench.rows(_Session()))
    assert [(row["problem"]["step"], row["problem"]["batch"]) for row in made] == [
        ("prefill", 1), ("decode", 1), ("decode", 16), ("decode", 64),
    ]  # fmt: skip
    for row in made:
        assert row["ours"]["median_ms"] == 5.0 and row["ratio"] == 1
        assert all("median_ms" in peer for peer in row["peers"]), row


def test_steps_not_requested_are_left_out(bench: Any) -> None:
    session = _Session()
    session.left_out = "decode_16"
    assert [row["problem"]["batch"] for row in bench.rows(session)] == [1, 1, 64]


def test_shares_are_disjoint_and_hold_every_step(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dlblas.bench import gpu_session

    monkeypatch.setattr(bench, "_row", lambda _b, _e, _m, step, batch, _c: f"{step}_{batch}")
    request = {"quick": True, "seconds": 0.1, "asked": 0}
    shares = [
        list(bench.rows(gpu_session.Session({**request, "share": (which, 3)})))
        for which in (1, 2, 3)
    ]
    assert shares == [["prefill_1", "decode_64"], ["decode_1"], ["decode_16"]]


@pytest.mark.parametrize("share", ["0/4", "5/4", "1", "1/0", "a/b"])
def test_what_is_no_share(share: str, capsys: pytest.CaptureFixture[str]) -> None:
    from dlblas import cli

    with pytest.raises(SystemExit):
        cli.main(["bench", "gpu_llama", "--share", share])
    assert "expected K/N with K from 1 to N" in capsys.readouterr().err


def test_a_decoder_that_computes_something_else_has_no_time(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = bench._example()
    monkeypatch.setattr(bench, "_example", lambda: example)
    decode = example.Llama.decode
    monkeypatch.setattr(example.Llama, "decode", lambda *given: 1.5 * decode(*given))
    row = list(bench.rows(_Session()))[1]
    assert "wrong result" in row["ours"]["missing"] and row["ratio"] is None


def test_without_a_clone_there_are_no_rows(
    bench: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not list(bench.rows(_Session()))
    assert "expected the root of a clone" in capsys.readouterr().out
