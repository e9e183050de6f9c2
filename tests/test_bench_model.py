"""``dlblas bench gpu_model`` as far as it runs without a GPU: a small Llama on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


class _Session:
    quick, seconds, rounds = True, 0.1, 2


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    from dlblas.bench import gpu_model

    def sample(run: Any, _: int) -> float:
        run()
        return 15.0

    monkeypatch.setattr(gpu_model, "_DEVICE", "cpu")
    monkeypatch.setattr(gpu_model, "_sample", sample)
    return gpu_model


def test_a_model_is_measured_as_it_is_and_patched(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.models.llama import modeling_llama

    def liger(model: Any) -> None:
        raise ModuleNotFoundError("No module named 'liger_kernel'")

    monkeypatch.setattr(bench, "_liger", liger)
    before = dict(vars(modeling_llama))
    forward, train = bench.rows(_Session())
    assert dict(vars(modeling_llama)) == before  # what patches write there is taken back
    for row, step in ((forward, "a forward pass"), (train, "a training step")):
        assert row["problem"]["step"] == step and row["against"] == "transformers"
        assert row["ours"]["median_ms"] == 15.0 and row["ratio"] == 1
        variants = {variant["name"]: variant for variant in row["variants"]}
        assert list(variants) == ["ours without rotary", "ours exact"]
        assert variants["ours exact"]["median_ms"] > 0
        assert "liger_kernel" in row["peers"][1]["missing"]


def test_a_patch_that_computes_something_else_has_no_time(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def liger(model: Any) -> None:
        model.model.norm.weight.data.mul_(1.5)

    monkeypatch.setattr(bench, "_liger", liger)
    forward = next(iter(bench.rows(_Session())))
    assert "wrong result" in forward["peers"][1]["missing"]
    assert forward["ratio"] == 1
