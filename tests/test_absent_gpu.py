"""GPUs that this machine does not have: what would be chosen on one, compiling its kernels ahead
into the cache, and pinning its implementations, which leaves the CPU's calls alone."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import dlblas
import numpy as np
import pytest
from dlblas import _missed

ROOT = pathlib.Path(__file__).resolve().parent.parent
X, W = np.ones((16, 4096), np.float32), np.ones(4096, np.float32)


def command(
    cache: pathlib.Path, *words: str, code: int = 0, **env: str
) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("DLBLAS_")}
    path = {"PYTHONPATH": str(ROOT / "build" / "python"), "DLBLAS_CACHE": str(cache)}
    done = subprocess.run(
        [sys.executable, "-m", "dlblas", *words],
        env={**kept, **path, "CUDA_VISIBLE_DEVICES": "", **env},
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_explain_says_what_a_gpu_would_run() -> None:
    for arch, ring in (("sm_90a", True), ("sm_80", False)):
        found = dlblas.explain("rms_norm", X, W, device=arch)
        rows = {row["implementation"]: row for row in found.as_dict()["candidates"]}
        assert found.as_dict()["implementation"].startswith("cuda_")
        assert found.as_dict()["source"] == "model"
        assert rows["cpu_baseline"]["reason"] == "runs on another kind of device"
        assert ("needs sm_90" not in rows["cuda_ring"]["reason"]) == ring
        assert f"for {arch}, a typical NVIDIA" in str(found)
    like = dlblas.explain(
        "rms_norm", *(dlblas.Spec(a.shape, "f32", device="sm_90a") for a in (X, W))
    )
    assert str(like) == str(dlblas.explain("rms_norm", X, W, device="sm_90a"))


def test_explain_keeps_strides_and_scalars_on_the_other_device() -> None:
    rows = np.ones((16, 8192), np.float32)[:, :4096]
    asked = dlblas.explain("rms_norm", rows, W, device="sm_90a", eps=1e-5, cast_before_weight=True)
    assert "x f32 row_strided" in str(asked) or "x f32 row" in str(asked)
    assert "cast_before_weight=true" in str(asked)


@pytest.mark.parametrize("device", ["sm_70", "sm_91", "sm_999", "sm_", "sm_9x", "sm90", "sm_90:0"])
def test_an_unknown_architecture_is_refused(device: str) -> None:
    with pytest.raises(dlblas.Error, match=r"expected .*sm_90"):
        dlblas.explain("rms_norm", X, W, device=device)


def test_nothing_is_measured_on_a_gpu_that_is_not_here() -> None:
    specs = tuple(dlblas.Spec(a.shape, "f32", device="sm_90a") for a in (X, W))
    for search in (dlblas.tune, dlblas.get_op):
        with pytest.raises(dlblas.errors.DeviceError, match="need not be here"):
            search("rms_norm", specs, seconds=0.1)


def test_compile_fills_the_cache_once(tmp_path: pathlib.Path) -> None:
    missed = tmp_path / "missed.jsonl"
    lines = [
        {"op": "rms_norm", "dims": {"T": 16, "C": 4096}, "dtype": "bf16", "scalars": {"eps": 1e-5}},
        {"op": "rms_norm", "dims": {"T": [2, 8], "C": 512},
         "dtypes": {"": "bf16", "weight": "f32"}},
        {"op": "matmul_gelu", "dims": {"M": 4, "K": 64, "N": 64}, "dtype": "f16",
         "scalars": {"bias": True}},
    ]  # fmt: skip
    missed.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    words = ("compile", "--arch", "sm_90a", "--arch", "sm_80", "--missed", str(missed), "--json")
    first = json.loads(command(tmp_path / "cache", *words).stdout)
    assert [row["arch"] for row in first["archs"]] == ["sm_90a", "sm_80"]
    for row in first["archs"]:
        assert (row["problems"], row["failures"]) == (3, [])
        assert row["compiled"] >= 1
    cubins = sorted(p.name for p in (tmp_path / "cache" / "v1" / "cubins").iterdir())
    assert len(cubins) == sum(row["compiled"] for row in first["archs"])
    again = command(tmp_path / "cache", *words, DLBLAS_JIT="0")  # no compiler at all
    assert [row["compiled"] for row in json.loads(again.stdout)["archs"]] == [0, 0]
    text = command(tmp_path / "cache", *words[:-1]).stdout
    assert "sm_90a: 3 problems, 0 kernels compiled\n" in text and "cache: " in text


def test_compile_takes_what_calls_on_a_cpu_missed(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "keys.jsonl"
    a = np.ones((16, 64), np.float32)
    with dlblas.autotune(seconds=0, missed=file) as session:
        dlblas.rms_norm(X.astype(np.float16), W, cast_before_weight=True)
        dlblas.matmul(a, a.T, activation="silu")  # bias absent, out_dtype none
        dlblas.quantize_group(X)
        dlblas.topk_softmax(a, 2)
    assert len(session.missed) == 4
    words = ("compile", "--arch", "sm_90a", "--missed", str(file), "--json")
    (row,) = json.loads(command(tmp_path / "cache", *words).stdout)["archs"]
    assert (row["problems"], row["failures"]) == (4, [])
    assert row["compiled"] >= 3


def test_compile_takes_what_a_models_calls_missed(tmp_path: pathlib.Path) -> None:
    """Compiles the kernels of these calls: default scalars, scalars that are set, transposed
    weights."""
    torch = pytest.importorskip("torch")
    file = tmp_path / "keys.jsonl"
    x, w = torch.randn(8, 64).bfloat16(), torch.randn(128, 64).bfloat16()
    q = torch.randn(1, 64, 4, 64).bfloat16()
    with dlblas.autotune(seconds=0, missed=file) as session:
        dlblas.matmul(x, w.T)
        dlblas.linear(x, w[:64])
        dlblas.bmm(x[None].expand(2, 8, 64).clone(), q[0, :2].mT)
        dlblas.nn.GatedMLP(64, 128, dtype=torch.bfloat16)(x)
        dlblas.flash_attention(q, q, q)
        dlblas.flash_attention(q, q, q, causal=True, window=16, softcap=30.0)
    count = len(session.missed)
    assert count >= 6
    keys = [(m.op, m.scalars, m.transposed) for m in _missed.read(str(file))]
    assert ("matmul", [], frozenset({"b"})) in keys
    attention = [scalars for op, scalars, _ in keys if op == "flash_attention_lse"]
    assert attention == [["causal=false"], ["causal=true", "window=256", "softcap=30"]]
    form, named = _missed.arguments("matmul", "M=8,K=64,N=16", "bf16", [], "cpu", keys[0][2])
    assert form == "matmul" and named["b"].strides == (1, 64) and named["a"].strides is None
    words = ("compile", "--arch", "sm_90a", "--missed", str(file), "--json")
    (row,) = json.loads(command(tmp_path / "cache", *words).stdout)["archs"]
    assert (row["problems"], row["failures"]) == (count, [])
    assert row["compiled"] >= 3


def test_compile_takes_one_problem_and_cases(tmp_path: pathlib.Path) -> None:
    words = ("compile", "--arch", "sm_90a", "--op", "rms_norm")
    problem = ("--dims", "T=4,C=512", "--dtype", "bf16")
    one = command(tmp_path, *words, *problem).stdout
    assert one.startswith("sm_90a: 1 problems, 1 kernels compiled\n")
    other = tmp_path / "other"  # the name alone, as explain and tune take it
    bare = command(other, "compile", "rms_norm", "--arch", "sm_90a", *problem).stdout
    assert bare.startswith("sm_90a: 1 problems, 1 kernels compiled\n")
    assert int(command(tmp_path, *words).stdout.split()[1]) > 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "--missed line 2 is malformed"),
        ('{"dims": {}}', "--missed line 2 is malformed"),
        ('{"op": "rms_norm", "sizes": {}}', "--missed line 2 is malformed"),
        ('{"op": "rms_norm", "dims": {"T": 1}}', "--dims lacks C"),
        ('{"op": "rmsnorm", "dims": {"T": 1, "C": 8}}', "did you mean rms_norm?"),
        ('{"op": "rms_norm", "dims": {"T": 1, "C": 8}, "dtype": "bf61"}', "did you mean bf16?"),
    ],
)
def test_a_bad_line_is_named(line: str, said: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "missed").write_text(f"\n{line}\n")
    words = ("compile", "--arch", "sm_90a", "--missed", str(tmp_path / "missed"))
    err = command(tmp_path / "cache", *words, code=2).stderr
    assert "line 2" in err and said in err
    assert not (tmp_path / "cache" / "v1" / "cubins").exists()


def test_a_pin_binds_its_own_kind_of_device() -> None:
    chosen = dlblas.explain("rms_norm", X, W).as_dict()
    with dlblas.pinned("rms_norm", "cuda_rows"):
        on_cpu = dlblas.explain("rms_norm", X, W).as_dict()
        assert (on_cpu["implementation"], on_cpu["source"]) == (
            chosen["implementation"],
            chosen["source"],
        )
        np.testing.assert_allclose(dlblas.rms_norm(X, W), X, atol=1e-5)
        on_gpu = dlblas.explain("rms_norm", X, W, device="sm_90a").as_dict()
        assert (on_gpu["implementation"], on_gpu["source"]) == ("cuda_rows", "pinned")
    with dlblas.pinned("rms_norm", "cpu_baseline"):
        on_gpu = dlblas.explain("rms_norm", X, W, device="sm_90a").as_dict()
        assert on_gpu["source"] == "model"
        assert dlblas.explain("rms_norm", X, W).as_dict()["implementation"] == "cpu_baseline"


def test_a_kept_pin_does_too(tmp_path: pathlib.Path) -> None:
    command(tmp_path, "cache", "pin", "rms_norm", "cuda_rows")
    words = ("explain", "rms_norm", "--dims", "T=16,C=4096", "--json")
    on_cpu = json.loads(command(tmp_path, *words).stdout)
    assert on_cpu["source"] == "model" and "passed over" not in on_cpu["why"]
    on_gpu = json.loads(command(tmp_path, *words, "--device", "sm_90a").stdout)
    assert (on_gpu["implementation"], on_gpu["source"]) == ("cuda_rows", "pinned")


def test_rows_for_gpus_are_one_line_without_one(tmp_path: pathlib.Path) -> None:
    words = ("explain", "rms_norm", "--dims", "T=16,C=4096")
    short, whole = (command(tmp_path, *words, *v).stdout for v in ((), ("-v",)))
    hidden = [line for line in whole.splitlines() if "cuda_" in line]
    assert len(hidden) > 3 and "cuda_" not in short
    assert f"     {len(hidden)} for GPUs; -v shows them\n" in short
    assert " µs " in short and " ms" not in short
    absent = (*words, "--device", "sm_90a")
    short, whole = (command(tmp_path, *absent, *v).stdout for v in ((), ("-v",)))
    rows = [line.split()[0] for line in whole.splitlines() if "runs on" in line]
    assert "reference" in rows and "cpu_baseline" in rows
    assert not any(f" {row} " in short for row in rows) and short.count("cuda_") > 3
    assert f"     {len(rows)} for the CPU; -v shows them\n" in short
    tune = ("tune", "rms_norm", "--dims", "T=4,C=64", "--max-evaluations", "2", "--seconds", "5")
    said = command(tmp_path, *tune).stdout
    assert f"  {len(hidden)} for GPUs; -v shows them\n" in said and " µs " in said
    assert "cuda_" in command(tmp_path, *tune, "--force", "-v").stdout
