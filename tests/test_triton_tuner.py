"""The tuner and the cache of dlblas.triton_ops: what wins, what it computes, what is kept.

Read next: tests/test_triton_ops.py, docs/names.md.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import warnings

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
from dlblas import triton_ops  # noqa: E402
from dlblas.triton_ops import autotuner, exceptions  # noqa: E402
from triton_ops_shared import HERE, PACKAGE, environment, python  # noqa: E402

# ---- the tuner -----------------------------------------------------------------------------------


def test_spaces():
    spaces = {
        "rmsnorm_rope": (triton_ops.RMSNORM_ROPE_CONFIGS, 45),
        "gated_mlp": (triton_ops.GATED_MLP_CONFIGS, 108),
        "fp8_gemm": (triton_ops.FP8_GEMM_CONFIGS, 216),
    }
    for kind, (space, points) in spaces.items():
        configs = autotuner.generate_configs(space)
        assert len(configs) == points == len({json.dumps(c) for c in configs})
        preset = autotuner.get_default_config(kind)
        assert preset in configs
        preset.clear()
        assert autotuner.get_default_config(kind)  # a copy
    assert autotuner.get_default_config("another") == {}
    few = autotuner.filter_valid_configs(
        autotuner.generate_configs(triton_ops.FP8_GEMM_CONFIGS), M=32, N=4096, K=32
    )
    assert {(c["BLOCK_M"], c["BLOCK_K"]) for c in few} == {(64, 32)}
    assert {c["BLOCK_N"] for c in few} == {64, 128, 256}


def records(folder: pathlib.Path) -> list[pathlib.Path]:
    """Records of the store that a cache keeps in its folder."""
    return sorted((folder / "v1" / "results").glob("*/*"))


def test_the_cache_survives_the_process(tmp_path: pathlib.Path):
    cache = autotuner.ConfigCache(tmp_path / "c")
    config = {"BLOCK_M": 64, "num_warps": 4, "fast": True, "path": "a\nb", "scale": 0.5}
    assert cache.get("gemm", (8, 8), "cuda:0") is None and len(cache) == 0
    cache.set("gemm", (8, 8), "cuda:0", config)
    cache.get("gemm", (8, 8), "cuda:0")["BLOCK_M"] = 1  # a copy
    code = (
        "from dlblas.triton_ops import ConfigCache; "
        f"print(ConfigCache({str(tmp_path / 'c')!r}).get('gemm', (8, 8), 'cuda:0'))"
    )
    assert python(code) == f"{config}\n"
    again = autotuner.ConfigCache(str(tmp_path / "c"))
    assert ("gemm", (8, 8), "cuda:0") in again and ("gemm", (8, 8), "cuda:1") not in again
    assert again.get_all_keys() == cache.get_all_keys() and len(again) == 1
    again.clear()
    assert len(again) == len(cache) == 0 and records(tmp_path / "c") == []
    assert cache.get("gemm", (8, 8), "cuda:0") is None


def test_the_cache_in_memory():
    cache, other = autotuner.ConfigCache(), autotuner.ConfigCache()
    cache.set("gemm", (1,), "cpu", {"BLOCK": 1})
    cache.get("gemm", (1,), "cpu")["BLOCK"] = 2
    assert cache.get("gemm", (1,), "cpu") == {"BLOCK": 1} and len(cache) == 1
    assert other.get("gemm", (1,), "cpu") is None and len(other) == 0
    cache.clear()
    assert cache.get("gemm", (1,), "cpu") is None and len(cache) == 0


def test_what_was_set_last_rules_whatever_the_clock_says(tmp_path: pathlib.Path):
    cache = autotuner.ConfigCache(tmp_path)
    key = ("gemm", (8,), "cuda:0")
    for block in (64, 32, 64, 16, 64):
        cache.set(*key, {"BLOCK_M": block})
    assert cache.get(*key) == {"BLOCK_M": 64}
    (path, *_) = [p for p in records(tmp_path) if ":64}" in p.read_text()]
    body = path.read_text().rpartition("sha256 ")[0]
    ahead = re.sub(r"measured_at \d+", f"measured_at {1 << 62}", body)  # a clock gone wrong
    sealed = f"{ahead}sha256 {hashlib.sha256(ahead.encode()).hexdigest()}\n"
    (path.parent / sealed[-65:-1]).write_text(sealed)
    (path.parent / sealed[-65:-1]).chmod(0o600)
    cache.set(*key, {"BLOCK_M": 8})
    assert cache.get(*key) == autotuner.ConfigCache(tmp_path).get(*key) == {"BLOCK_M": 8}


def test_the_librarys_commands_know_the_cache(tmp_path: pathlib.Path):
    for size in (8, 16):
        autotuner.ConfigCache(tmp_path / "a").set("gemm", (size,), "cuda:0", {"BLOCK": size})
    (first, second) = autotuner.ConfigCache(tmp_path / "a").get_all_keys()

    def dlblas(folder: str, *words: str) -> object:
        done = subprocess.run(
            [sys.executable, "-m", "dlblas", "cache", *words, "--json"],
            env={**os.environ, "DLBLAS_CACHE": str(tmp_path / folder), "PYTHONPATH": PACKAGE},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert {(k["hash"], k["key"]["op"], k["key"]["dims"]) for k in dlblas("a", "ls")} == {
        (key, "triton_ops/gemm", f"[{size}]")
        for key in (first, second)
        for size in (8, 16)
        if autotuner.ConfigCache(tmp_path / "a").get("gemm", (size,), "cuda:0")
        and dlblas("a", "show", key)["key"]["dims"] == f"[{size}]"
    }
    assert dlblas("a", "verify")["good"] == 2
    assert dlblas("a", "export", str(tmp_path / "file")) == {"records": 2}
    assert dlblas("b", "import", str(tmp_path / "file"))["imported"] == 2
    assert dlblas("c", "merge", str(tmp_path / "a"))["imported"] == 2
    assert dlblas("c", "compact")["records"] == 2
    for folder in "bc":
        cache = autotuner.ConfigCache(tmp_path / folder)
        assert [cache.get("gemm", (n,), "cuda:0") for n in (8, 16)] == [{"BLOCK": 8}, {"BLOCK": 16}]


def test_clearing_leaves_the_results_of_operators(tmp_path: pathlib.Path):
    code = (
        "import numpy as np, dlblas; from dlblas.triton_ops import ConfigCache; "
        "dlblas.tune('rms_norm', (np.ones((4, 64), 'f'), np.ones(64, 'f')), seconds=0.1); "
        f"c = ConfigCache({str(tmp_path)!r}); c.set('gemm', (1,), 'cpu', dict(B=1)); "
        "assert len(c) == 1 and len(dlblas.cache.ls()) == 2; c.clear(); "
        "print([k['key']['op'] for k in dlblas.cache.ls()])"
    )
    assert python(code, DLBLAS_CACHE=str(tmp_path)) == "['rms_norm']\n"


def test_keys_do_not_collide(tmp_path: pathlib.Path):
    kinds, sizes = ["a", "a_b", 'a"', "a\n\udc80"], [(1, 2), (12,), (), (1,), ("1",)]
    keys = list(itertools.product(kinds, sizes, ["cuda:0", "b_cuda:0"]))
    for folder in (None, tmp_path):
        cache = autotuner.ConfigCache(folder)
        for index, key in enumerate(keys):
            cache.set(*key, {"index": index})
        fresh = autotuner.ConfigCache(folder) if folder else cache
        assert [fresh.get(*key) for key in keys] == [{"index": i} for i in range(len(keys))]
        assert len(fresh) == len(keys)
    assert cache.get("a", torch.Size([1, 2]), torch.device("cuda:0")) == {"index": 0}


@pytest.mark.parametrize("kept", [False, True])
def test_integers_of_numpy_are_integers(tmp_path: pathlib.Path, kept):
    cache = autotuner.ConfigCache(tmp_path if kept else None)
    cache.set("gemm", (np.int64(8), 2), "cuda:0", {"BLOCK": np.int64(64), "deep": [np.int8(1)]})
    assert cache.get("gemm", (8, np.int32(2)), "cuda:0") == {"BLOCK": 64, "deep": [1]}
    assert cache.get("gemm", ("8", 2), "cuda:0") is None


def test_a_damaged_file_is_as_if_absent(tmp_path: pathlib.Path):
    cache = autotuner.ConfigCache(tmp_path / "0")
    cache.set("gemm", (8,), "cuda:0", {"BLOCK_M": 64})
    (path,) = records(tmp_path / "0")
    whole, name = path.read_bytes(), path.relative_to(tmp_path / "0")
    damaged = [whole[:length] for length in range(0, len(whole), 7)]
    damaged += [
        whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        for place in range(0, len(whole), 5)
    ]
    for i, text in enumerate(damaged, 1):  # a folder each: what was read once is not read again
        shutil.copytree(tmp_path / "0", tmp_path / str(i))
        (tmp_path / str(i) / name).write_bytes(text)
        assert autotuner.ConfigCache(tmp_path / str(i)).get("gemm", (8,), "cuda:0") is None, i
    autotuner.ConfigCache(tmp_path / "0").set("gemm", (9,), "cuda:0", {"BLOCK_M": 32})
    shutil.copytree(tmp_path / "0", tmp_path / "moved")
    (other,) = {p.relative_to(tmp_path / "0") for p in records(tmp_path / "0")} - {name}
    shutil.copy(tmp_path / "0" / other, tmp_path / "moved" / name.parent)  # another key's record
    (tmp_path / "moved" / name).unlink()
    assert autotuner.ConfigCache(tmp_path / "moved").get("gemm", (8,), "cuda:0") is None


def test_a_folder_of_others_is_neither_read_nor_written(tmp_path: pathlib.Path):
    autotuner.ConfigCache(tmp_path / "a").set("gemm", (8,), "cuda:0", {"BLOCK_M": 64})
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b" / "v1").chmod(0o777)
    cache = autotuner.ConfigCache(tmp_path / "b")
    assert cache.get("gemm", (8,), "cuda:0") is None
    cache.set("gemm", (8,), "cuda:0", {"BLOCK_M": 32})  # kept in this process all the same
    assert autotuner.ConfigCache(tmp_path / "b").get("gemm", (8,), "cuda:0") == {"BLOCK_M": 32}
    assert len(records(tmp_path / "b")) == 1


class OutOfResources(Exception):  # noqa: N818
    """Like Triton's own, which derives directly from Exception."""


def test_the_fastest_configuration_wins_and_is_remembered(tmp_path: pathlib.Path):
    calls: list[int] = []

    def kernel(x, BLOCK=1, *, scale):  # noqa: N803
        calls.append(BLOCK)
        if BLOCK == 3:
            raise OutOfResources("no room")
        for _ in range(200 * BLOCK):
            x.mul(scale)

    def tuner():
        space = {"BLOCK": [4, 1, 3]}
        return triton_ops.TritonAutoTuner(kernel, space, 1, 5, cache_dir=tmp_path)

    key = {"problem_size": (8,), "device": "cpu", "kernel_type": "scale"}
    with pytest.warns(UserWarning, match="'BLOCK': 3.* failed: no room"):
        result = tuner().tune(torch.ones(8), scale=2.0, **key)
    assert result.best_config == {"BLOCK": 1} and result.problem_size == (8,)
    assert [config for config, _ in result.all_results] == [{"BLOCK": 4}, {"BLOCK": 1}]
    assert 0 < result.metrics.latency_ms == min(m.latency_ms for _, m in result.all_results)
    assert tuner().get_cached_config((8,), "cpu", "scale") == {"BLOCK": 1}
    calls.clear()
    again = tuner().tune(torch.ones(8), scale=2.0, **key)
    assert again.best_config == {"BLOCK": 1} and again.all_results == [] and set(calls) == {1}
    last = tuner()
    last.clear_cache()
    assert last.get_cached_config((8,), "cpu", "scale") is None


def test_without_a_winner_the_last_error_is_told():
    def kernel(BLOCK):  # noqa: N803
        raise RuntimeError(f"no room for {BLOCK}")

    tuner = triton_ops.TritonAutoTuner(kernel, {"BLOCK": [1, 2]}, 1, 1)
    with pytest.warns(UserWarning), pytest.raises(exceptions.TuningFailedError) as caught:
        tuner.tune(problem_size=(8,), device="cpu")
    error = caught.value
    assert (error.problem_size, error.configs_tried) == ((8,), 2)
    assert str(error.last_error) == "no room for 2"


def test_nothing_to_search_is_a_failed_search_and_a_late_failure_one_of_its_configuration():
    with pytest.raises(exceptions.TuningFailedError) as caught:
        triton_ops.TritonAutoTuner(lambda **config: None, {"BLOCK": []}).tune()
    assert caught.value.configs_tried == 0
    calls: list[int] = []

    def kernel(BLOCK):  # noqa: N803
        calls.append(BLOCK)
        if BLOCK == 2 and calls.count(2) > 2:
            raise RuntimeError("twice, and no more")

    tuner = triton_ops.TritonAutoTuner(kernel, {"BLOCK": [1, 2]}, 5, 1)
    with pytest.warns(UserWarning, match="'BLOCK': 2.* failed: twice, and no more"):
        assert tuner.tune().best_config == {"BLOCK": 1}


def test_ctrl_c_is_not_a_failed_configuration():
    def kernel(BLOCK):  # noqa: N803
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        triton_ops.TritonAutoTuner(kernel, {"BLOCK": [1, 2]}, 1, 1).tune()


def test_many_writers_lose_nothing(tmp_path: pathlib.Path):
    code = (
        "import sys; from dlblas.triton_ops import ConfigCache; "
        f"c = ConfigCache({str(tmp_path)!r}); me = int(sys.argv[1]); "
        "[(c.set('own', (me, i), 'cuda:0', dict(me=me, i=i)), "
        "c.set('all', (8,), 'cuda:0', dict(me=me))) for i in range(20)]"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(me)], env=environment())
        for me in range(3)
    ]
    assert [child.wait(120) for child in children] == [0] * 3
    cache = autotuner.ConfigCache(tmp_path)
    for me, i in itertools.product(range(3), range(20)):
        assert cache.get("own", (me, i), "cuda:0") == {"me": me, "i": i}
    assert cache.get("all", (8,), "cuda:0")["me"] in range(3) and len(cache) == 61


# ---- what a configuration computes ---------------------------------------------------------------


def double(x, out, wrong="", BLOCK=4):  # noqa: N803
    """Writes 2·x to ``out`` and returns it; the fewer blocks, the faster."""
    for part in range(BLOCK):
        torch.mul(x[part::BLOCK], 2, out=out[part::BLOCK])
    if wrong == "nan":
        out[3] = math.nan
    elif wrong == "value":
        out[3] *= 1.01
    elif wrong == "returned":
        return out[:-1].clone()
    return out.clone()


def tune_double(space, **options):
    x, out = torch.arange(64, dtype=torch.float32), torch.zeros(64)
    tuner = triton_ops.TritonAutoTuner(double, space, 1, 5, options.pop("cache_dir", None))
    result = tuner.tune(x, out, problem_size=(64,), device="cpu", kernel_type="double", **options)
    assert torch.equal(out, 2 * x)  # as one run of the winner leaves it
    return result


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("nan", "1 of 64 elements differ"),
        ("value", "1 of 64 elements differ"),
        ("returned", r"a result is torch.float32 \[63\], not torch.float32 \[64\]"),
    ],
)
def test_what_computes_something_else_does_not_win(tmp_path: pathlib.Path, wrong, words):
    space = {"BLOCK": [16], "wrong": ["", wrong]}
    with pytest.warns(UserWarning, match=words):
        result = tune_double(space, cache_dir=tmp_path)
    assert result.best_config == {"BLOCK": 16, "wrong": ""}
    assert [config for config, _ in result.all_results] == [result.best_config]
    (path,) = records(tmp_path)
    assert path.read_text().count(".failure wrong_result\n") == 1


def test_a_result_that_is_not_written_shows():
    def kernel(x, out, keep):
        if keep < 64:
            out[keep + 1 :] = x[keep + 1 :]
        out[:keep] = x[:keep]

    x, out = torch.ones(64), torch.ones(64)
    out[0] = 0  # only this one says that the default writes it; all others are right as they are
    with pytest.warns(UserWarning, match="1 of 64 elements differ"):
        result = triton_ops.TritonAutoTuner(kernel, {"keep": [64, 5]}, 1, 2).tune(x, out)
    assert result.best_config == {"keep": 64} and torch.equal(out, x)


def test_arguments_are_given_anew_to_each_configuration():
    seen = []

    def kernel(state, index, BLOCK):  # noqa: N803
        seen.append((float(state[0]), int(index[0])))
        state += 1
        index += 1
        return state * BLOCK / BLOCK

    state, index = torch.zeros(8), torch.zeros(8, dtype=torch.int32)
    tuner = triton_ops.TritonAutoTuner(kernel, {"BLOCK": [1, 2, 4]}, 1, 2)
    assert len(tuner.tune(state, index).all_results) == 3
    assert float(state[0]) == 1 and int(index[0]) == 1
    assert (0.0, 0) in seen and not any(value < 0 for _, value in seen)


def test_other_orders_of_a_sum_are_right_and_random_results_decide_nothing():
    def sums(x, parts, dtype):
        return sum(part.to(dtype).sum(1) for part in x.chunk(parts, 1)).to(x.dtype)

    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        x = torch.randn(32, 4096, dtype=dtype)
        tuner = triton_ops.TritonAutoTuner(sums, {"parts": [1, 8, 64]}, 1, 1)
        assert len(tuner.tune(x, dtype=torch.float64).all_results) == 3

    def noise(BLOCK):  # noqa: N803
        return torch.randn(100), torch.full((4,), math.nan), 7

    found = triton_ops.TritonAutoTuner(noise, {"BLOCK": [64, 128]}, 1, 1).tune()
    assert len(found.all_results) == 2

    def broken(BLOCK):  # noqa: N803
        return torch.randn(100) * (math.nan if BLOCK == 128 else 1)

    with pytest.warns(UserWarning, match="'BLOCK': 128.* has NaN, and the default's has none"):
        found = triton_ops.TritonAutoTuner(broken, {"BLOCK": [64, 128]}, 1, 1).tune()
    assert len(found.all_results) == 1


@pytest.mark.parametrize(
    "name", ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float64", "complex64", "int8"]
)
def test_one_other_element_shows_in_every_dtype(name):
    def kernel(x, out, wrong):
        out.copy_(x)
        out.view(-1)[5:6].copy_(torch.tensor(4.0 if wrong else 2.0))

    out = torch.zeros(8, 8).to(getattr(torch, name))
    tuner = triton_ops.TritonAutoTuner(kernel, {"wrong": [False, True]}, 1, 1)
    with pytest.warns(UserWarning, match="'wrong': True"):
        found = tuner.tune(torch.randn(8, 8), out)
    assert found.best_config == {"wrong": False} and len(found.all_results) == 1
    again = triton_ops.TritonAutoTuner(kernel, {"wrong": [False]}, 1, 1)
    assert len(again.tune(torch.randn(8, 8), out).all_results) == 1


def compared(kernel, *args):
    """How many of the configurations ``wrong=False`` and ``wrong=True`` are timed; the arguments
    are left as the first one leaves them."""
    tuner = triton_ops.TritonAutoTuner(kernel, {"wrong": [False, True]}, 1, 1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = tuner.tune(*args)
    assert not [w for w in said if "configuration" not in str(w.message)]
    assert found.all_results[0][0] == {"wrong": False}
    return len(found.all_results)


def test_conjugates_and_negatives_are_compared_by_value():
    z = torch.randn(4, dtype=torch.complex64)
    views = {
        "conj": (lambda t: t.conj(), lambda t: t.conj().resolve_conj()),
        "negative": (lambda t: t.conj().imag, lambda t: -t.imag),
        "both": (lambda t: torch._neg_view(t.conj()), lambda t: -t.conj().resolve_conj()),
    }
    for name, (lazy, plain) in views.items():
        assert compared(lambda wrong, a=lazy, b=plain: b(z) if wrong else a(z)) == 2, name
        assert compared(lambda wrong, a=lazy: a(z) if not wrong else a(z * 2)) == 1, name

        def into(x, out, wrong):
            out.mul_(x * (3 if wrong else 2))

        out = lazy(torch.ones(4, dtype=torch.complex64) * (2 + 1j))  # given as a view
        before = out.clone()
        assert compared(into, 1.0, out) == 1, name
        assert torch.equal(out.clone(), before * 2), f"{name}: one run on what was given"


@pytest.mark.parametrize(
    "name",
    ["float32", "float16", "float64", "longdouble", "complex64", "clongdouble", ">f4", "<U4", "O",
     "int8", "uint16", "uint64", ">i4", "bool", "datetime64[s]", "i4,f8", "f4,i1"],
)  # fmt: skip
def test_numpy_arrays_are_compared(name):
    def array(other=False):
        values = [0, 1, 0, 1 if other else 0, 1, 1]
        if "," in name:
            return np.array([(v, v) for v in values], name).reshape(2, 3)
        return np.array(values).astype(name).reshape(2, 3)

    def returns(wrong):
        return {"all": [array(wrong)]}

    def writes(out, wrong):
        out[...] = array(wrong)

    def steps(wrong):  # neither rows nor forward
        return array().T[::-1].copy()[::-1].T if wrong else array()

    assert compared(returns) == 1 and compared(steps) == 2
    for out in (np.zeros_like(array()), np.zeros_like(array().T).T, np.zeros_like(array())[::-1]):
        assert compared(writes, out) == (2 if name == "O" else 1)  # objects are kept nowhere
        if name != "O":
            assert (out == array()).all(), "one run of the winner"


def test_shape_dtype_and_nan_of_numpy_arrays_count():
    plain = np.arange(6, dtype=np.float32)
    others = [
        plain * 2, plain[:-1], plain.reshape(2, 3), plain.astype(np.float64), plain.astype(">f4"),
        plain.astype(np.longdouble), np.where(plain == 3, np.nan, plain), plain.astype(object), 7,
    ]  # fmt: skip
    for other in others:
        assert compared(lambda wrong, other=other: other if wrong else plain) == 1, other
    fixed = np.broadcast_to(plain, (2, 6))  # not to be written
    for same in (plain + 1e-7, plain[::-1].copy()[::-1], fixed[0], torch.from_numpy(plain.copy())):
        assert compared(lambda wrong, same=same: same if wrong else plain) == 2, same
    assert compared(lambda x, wrong: x * 1, fixed) == 2
    for scalar, other in (
        (np.float32(2), np.float32(3)), (np.float64(2), np.float64(2.001)), (2j, 3j),
        (np.uint16(2), np.uint16(3)), (np.bool_(True), np.bool_(False)),
        (np.datetime64(2, "s"), np.datetime64(3, "s")),
        (np.datetime64(0, "s"), np.datetime64(0, "D")),
    ):  # fmt: skip
        assert compared(lambda wrong, s=scalar: s) == 2, scalar
        assert compared(lambda wrong, s=scalar, o=other: o if wrong else s) == 1, scalar
    rows = np.zeros(6, np.dtype([("tag", "i1"), ("x", "f4")]))  # x is at odd places

    def into(field, wrong):
        field[:] = 3 if wrong else 2

    assert compared(into, rows["x"]) == 1 and (rows["x"] == 2).all() and not rows["tag"].any()


def test_the_kernels_own_default_is_what_is_right():
    def kernel(x, BLOCK_SIZE, num_warps, num_stages):  # noqa: N803
        return x * (3 if BLOCK_SIZE == 64 else 2)

    space = {"BLOCK_SIZE": [64, 128], "num_warps": [4], "num_stages": [2]}
    tuner = triton_ops.TritonAutoTuner(kernel, space, 1, 1)
    with pytest.warns(UserWarning, match="'BLOCK_SIZE': 64.* differ"):
        result = tuner.tune(torch.ones(4), kernel_type="rmsnorm_rope")
    assert result.best_config["BLOCK_SIZE"] == 128
    with pytest.warns(UserWarning, match="'BLOCK_SIZE': 128.* differ"):
        assert tuner.tune(torch.ones(4)).best_config["BLOCK_SIZE"] == 64  # the first


def test_what_was_set_by_hand_is_checked_before_it_is_used(tmp_path: pathlib.Path):
    space = {"BLOCK": [16, 1], "wrong": ["", "value"]}
    key = ("double", (64,), "cpu")
    cache = autotuner.ConfigCache(tmp_path)
    cache.set(*key, {"BLOCK": 16, "wrong": ""})
    assert tune_double(space, cache_dir=tmp_path).best_config == {"BLOCK": 16, "wrong": ""}
    for config in ({"BLOCK": 1, "wrong": "value"}, {"BLOCK": 3, "wrong": ""}):
        cache.set(*key, config)
        with pytest.warns(UserWarning, match="differ"):
            result = tune_double(space, cache_dir=tmp_path)
        assert result.best_config["wrong"] == "" and len(result.all_results) == 2
        assert cache.get(*key) == result.best_config


class _Scale:
    def __init__(self, by):
        self.by = by

    def __call__(self, x, out, BLOCK):  # noqa: N803
        torch.mul(x, self.by if BLOCK == 2 else 2, out=out)
        time.sleep(0.004 / BLOCK)


@pytest.mark.parametrize("wrap", [lambda k: k, lambda k: functools.partial(k, BLOCK=1)])
def test_what_a_kernel_holds_is_part_of_what_is_kept(tmp_path: pathlib.Path, wrap):
    def tune(by):
        x, out = torch.ones(8), torch.zeros(8)
        kernel = wrap(_Scale(by))
        tuner = triton_ops.TritonAutoTuner(kernel, {"BLOCK": [1, 2]}, 1, 3, cache_dir=tmp_path)
        return tuner.tune(x, out, problem_size=(8,), device="cpu")

    assert tune(2).best_config == {"BLOCK": 2}
    assert tune(2).all_results == []  # kept
    with pytest.warns(UserWarning, match="8 of 8 elements differ"):
        assert tune(3).best_config == {"BLOCK": 1}


def test_another_source_is_searched_anew(tmp_path: pathlib.Path):
    def first(BLOCK):  # noqa: N803
        return 1

    def second(BLOCK):  # noqa: N803
        return 2

    def tune(kernel):
        tuner = triton_ops.TritonAutoTuner(kernel, {"BLOCK": [1, 2]}, 1, 1, tmp_path)
        return len(tuner.tune(problem_size=(8,), device="cpu").all_results)

    assert [tune(first), tune(first), tune(second), tune(second), tune(first)] == [2, 0, 2, 0, 2]


@pytest.mark.gpu
def test_a_search_on_a_gpu():
    def kernel(x, out, chunks):
        for part in range(chunks):
            torch.add(x[part::chunks], 1, out=out[part::chunks])

    x = torch.ones(1 << 22, device="cuda")
    tuner = triton_ops.TritonAutoTuner(kernel, {"chunks": [16, 1]}, 2, 10)
    result = tuner.tune(x, torch.empty_like(x), problem_size=tuple(x.shape), device="cuda:0")
    assert result.best_config == {"chunks": 1} and 0 < result.metrics.latency_ms < 5


@pytest.mark.gpu
def test_a_triton_kernel_on_a_gpu(tmp_path: pathlib.Path):
    pytest.importorskip("triton")
    code = f"import sys; sys.path.insert(0, {str(HERE)!r}); import triton_ops_gpu as t; "
    first = json.loads(python(code + f"t.main({str(tmp_path)!r})"))
    assert first["best"]["wrong"] == 0 and first["best"]["BLOCK_SIZE"] >= 256, first
    # 2 sizes are right, 2 miss the tail, 1 does not compile
    assert first["right"] == 2 and first["warned"] == {"differ": 2, "other": 1}, first
    assert first["out_is_right"] and 0 < first["latency_ms"] < 1, first
    again = json.loads(python(code + f"t.main({str(tmp_path)!r})"))
    assert again["best"] == first["best"] and again["right"] == 0, again


@pytest.mark.gpu
def test_the_cache_is_keyed_by_the_device(tmp_path: pathlib.Path):
    cache = autotuner.ConfigCache(tmp_path)
    cache.set("gemm", (8,), "cuda:0", {"BLOCK": 1})
    (path,) = records(tmp_path)
    name = torch.cuda.get_device_name(0)
    assert f"key.device.model {name} sm_" in path.read_text()
    assert autotuner.ConfigCache(tmp_path).get("gemm", (8,), "cuda:0") == {"BLOCK": 1}
    code = (
        "import torch; torch.cuda.is_available = lambda: False; "
        "from dlblas.triton_ops import ConfigCache; "
        f"print(ConfigCache({str(tmp_path)!r}).get('gemm', (8,), 'cuda:0'))"
    )
    assert python(code) == "None\n"  # of a machine without this GPU
