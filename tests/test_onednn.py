"""oneDNN is present when tests run, competes for products, and its version is part of the record.

``make test`` installs it: a set-up that stops doing so must fail here, not silently test less.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas.errors import UnsupportedError


def _library() -> dict[str, Any]:
    (row,) = (row for row in dlblas.info()["libraries"] if row["name"] == "onednn")
    return dict(row)


def test_it_is_found() -> None:
    row = _library()
    assert row["found"] is True, row["why_not"]
    assert int(row["version"].split(".")[0]) >= 3, row["version"]


@pytest.mark.parametrize("rows", [1, 16, 512])
def test_it_competes_for_matmul(rows: int) -> None:
    a, b = np.ones((rows, 256), "f4"), np.ones((256, 128), "f4")
    candidates = dlblas.explain("matmul", a, b).as_dict()["candidates"]
    (row,) = (row for row in candidates if row["implementation"] == "onednn")
    assert row["supports"] is True, row["reason"]
    with dlblas.pinned("matmul", "onednn"):
        np.testing.assert_array_equal(dlblas.matmul(a, b), np.full((rows, 128), 256, "f4"))


def _row(op: str, *args: Any, **named: Any) -> dict[str, Any]:
    candidates = dlblas.explain(op, *args, **named).as_dict()["candidates"]
    (row,) = (row for row in candidates if row["implementation"] == "onednn")
    return dict(row)


@contextlib.contextmanager
def _where_it_has_one() -> Iterator[None]:
    """Skips where oneDNN itself has nothing fast on a CPU without AVX-512, as for bf16 and for sums
    that scales precede."""
    try:
        yield
    except (AssertionError, UnsupportedError) as refused:
        if dlblas.info()["devices"][0]["isa"] == "avx512" or "on this CPU" not in str(refused):
            raise
        pytest.skip(re.search(r"oneDNN .* on this CPU", str(refused))[0])  # type: ignore[index]


def _draw(*shape: int, dtype: str = "float32") -> Any:
    import ml_dtypes

    made = np.random.default_rng(sum(shape)).standard_normal(shape)
    return made.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def _near(got: Any, want: Any) -> None:
    bound = 1e-5 if got.dtype == np.float32 else 1e-2
    assert np.abs(got.astype("f8") - want).max() <= bound * np.abs(want).max()


# Where the B matrices of [B, rows, columns] lie.
LYING = {
    "contiguous": lambda x: x,
    "heads": lambda x: np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1),
    "gaps": lambda x: np.pad(x, ((0, 0), (0, 2), (0, 6)))[:, : x.shape[1], : x.shape[2]],
    "apart": lambda x: np.repeat(x, 2, 0)[::2],
    "reversed": lambda x: x[::-1].copy()[::-1],
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("lies", LYING)
@pytest.mark.parametrize("nt", [False, True])
def test_it_multiplies_batches_in_one_call(nt: bool, lies: str, dtype: str) -> None:
    op = "batched_matmul_nt" if nt else "batched_matmul"
    place = LYING[lies]
    for size, m, k, n in ((5, 24, 32, 40), (3, 1, 64, 8), (1, 8, 16, 24), (70, 3, 4, 2)):
        a, b = _draw(size, m, k, dtype=dtype), _draw(size, k, n, dtype=dtype)
        bias, out = _draw(n, dtype=dtype), place(np.zeros_like(a, shape=(size, m, n)))
        right = place(np.ascontiguousarray(b.swapaxes(1, 2)) if nt else b)
        row = _row(op, place(a), right, bias=bias)
        with _where_it_has_one():
            assert row["supports"] is True, row["reason"]
        with dlblas.pinned(op, "onednn"):
            dlblas.bmm(place(a), right.swapaxes(1, 2) if nt else right, bias=bias, out=out)
            _near(out, np.matmul(a.astype("f8"), b.astype("f8")) + bias.astype("f8"))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_scales_bias_activation_and_residual_follow_its_sums(dtype: str) -> None:
    x, weight, bias = _draw(24, 64, dtype=dtype), _draw(40, 64, dtype=dtype), _draw(40, dtype=dtype)
    scale, residual = _draw(40), _draw(24, 40, dtype=dtype)
    sums = x.astype("f8") @ weight.astype("f8").T
    wide = {"bias": bias.astype("f8"), "residual": residual.astype("f8")}
    apart = np.pad(residual, ((0, 0), (0, 8)))[:, :40]  # rows at another stride than y's
    for given in (
        {"residual": residual}, {"bias": bias, "residual": apart},
        {"column_scale": scale, "bias": bias, "activation": "silu", "residual": residual},
        {"bias": bias, "activation": "leaky_relu"},
    ):  # fmt: skip
        y = sums * given.get("column_scale", 1.0) + (wide["bias"] if "bias" in given else 0)
        if given.get("activation") == "silu":
            y = y / (1 + np.exp(-y))
        elif "activation" in given:
            y = np.where(y < 0, 0.01 * y, y)
        y = y + (wide["residual"] if "residual" in given else 0)
        row = _row("linear_residual", x, weight, **given)
        with _where_it_has_one():
            assert row["supports"] is True, row["reason"]
        with _where_it_has_one(), dlblas.pinned("linear_residual", "onednn"):
            _near(dlblas.linear(x, weight, **given), y)
            wide_out = np.zeros_like(x, shape=(24, 56))[:, :40]
            _near(dlblas.linear(x, weight, **given, out=wide_out), y)
            if "residual" in given:
                dlblas.linear(x, weight, **given, out=(kept := given["residual"].copy()))
                held = given["residual"].copy()
                dlblas.linear(x, weight, **{**given, "residual": held}, out=held)
                np.testing.assert_array_equal(held, kept)


def test_what_follows_the_sums_is_refused_where_it_would_be_slow_or_wrong() -> None:
    x, weight, residual = _draw(24, 64), _draw(40, 64), _draw(40, 24).T
    reasons = {
        "rows of residual are not contiguous": {"residual": residual},
        "relu turns NaN into 0": {"activation": "relu"},
        "gelu turns Inf into NaN": {"activation": "gelu"},
    }
    for reason, given in reasons.items():
        row = _row("linear_residual", x, weight, **given)
        assert row["supports"] is False and reason in row["reason"], row
    row = _row("gated_linear", x, weight, weight, activation="gelu_tanh")
    assert row["supports"] is False and "only silu is exact" in row["reason"], row


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_it_gates(dtype: str) -> None:
    x, gate, up = (_draw(*shape, dtype=dtype) for shape in ((24, 64), (40, 64), (41, 64)))
    row = _row("gated_linear", x, gate, up[1:])
    with _where_it_has_one():
        assert row["supports"] is True, row["reason"]
    sums = [x.astype("f8") @ w.astype("f8").T for w in (gate, up[1:])]
    with dlblas.pinned("gated_linear", "onednn"):
        _near(dlblas.gated_linear(x, gate, up[1:]), sums[0] / (1 + np.exp(-sums[0])) * sums[1])


def test_the_model_leaves_few_rows_of_large_matrices_to_our_own_loops() -> None:
    """They take oneDNN up to twice as long, since it packs a matrix that is read once."""
    a, b = dlblas.Spec((32, 1, 4096), "bf16"), dlblas.Spec((32, 4096, 128), "bf16")
    assert dlblas.explain("batched_matmul", a, b).as_dict()["implementation"] != "onednn"
    x, weight = dlblas.Spec((16, 4096), "bf16"), dlblas.Spec((4096, 4096), "bf16")
    assert dlblas.explain("linear_residual", x, weight).as_dict()["implementation"] != "onednn"


@pytest.mark.parametrize("depth", [66, 67])
def test_an_inf_that_ends_a_row_of_bf16_stays(depth: int) -> None:
    """oneDNN multiplies K in pairs: with an odd K, it multiplied the last value by a padding 0."""
    import ml_dtypes

    rng = np.random.default_rng(depth)
    a = rng.standard_normal((33, depth)).astype(ml_dtypes.bfloat16)
    b = (1 + rng.random((depth, 49))).astype(ml_dtypes.bfloat16)
    a[0, -1] = np.inf
    candidates = dlblas.explain("matmul", a, b).as_dict()["candidates"]
    (row,) = (row for row in candidates if row["implementation"] == "onednn")
    if depth % 2:
        assert row["supports"] is False and "an odd one becomes NaN" in row["reason"], row
    names = [row["implementation"] for row in candidates if row["supports"]]
    for name in names:
        with dlblas.pinned("matmul", name):
            assert np.isposinf(dlblas.matmul(a, b).astype("f4")[0]).all(), name


EQUAL_TERMS = """
import dlblas, numpy as np
for shape in ((1, 65536, 1), (1, 65536, 16), (8, 65536, 1)):
    a, b = np.full(shape[:2], 0.37, "f4"), np.full(shape[1:], 0.71, "f4")
    rows = dlblas.explain("matmul", a, b).as_dict()["candidates"]
    if next(row for row in rows if row["implementation"] == "onednn")["supports"]:
        with dlblas.pinned("matmul", "onednn"):
            verdict = dlblas.verify("matmul", (a, b), dlblas.matmul(a, b))
        assert verdict.ok and verdict.worst < 0.8, (shape, verdict)
longer = dlblas.Spec((1, 65537), "f32"), dlblas.Spec((65537, 1), "f32")
rows = dlblas.explain("matmul", *longer).as_dict()["candidates"]
row = next(row for row in rows if row["implementation"] == "onednn")
assert not row["supports"] and "too inexact beyond 65536" in row["reason"], row
"""


@pytest.mark.parametrize("isa", ["SSE41", "AVX2", "DEFAULT"])
def test_long_sums_are_refused_before_they_are_inexact(isa: str) -> None:
    """On CPUs without AVX-512, oneDNN sums a column of few rows in one chain: with 2^18 equal terms
    its error was four times what the oracle allows."""
    path = os.pathsep.join([str(pathlib.Path(dlblas.__file__).parent.parent), *sys.path])
    env = {**os.environ, "ONEDNN_MAX_CPU_ISA": isa, "PYTHONPATH": path}
    subprocess.run([sys.executable, "-c", EQUAL_TERMS], check=True, timeout=480, env=env)


def test_its_version_is_stored_with_its_samples(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLBLAS_CACHE", str(tmp_path))
    program = (
        f"import sys; sys.path.insert(0, {str(pathlib.Path(dlblas.__file__).parent.parent)!r})\n"
        "import dlblas, numpy as np\n"
        'a = np.random.default_rng(7).standard_normal((64, 64)).astype("f4")\n'
        'dlblas.get_op("matmul", (a, a), seconds=0.2, max_evaluations=20)\n'
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=480)
    (record,) = tmp_path.glob("v1/results/*/*")
    lines = record.read_text().splitlines()
    (cand,) = {line.split(".")[1] for line in lines if line.endswith(".implementation onednn")}
    (stored,) = (line for line in lines if line.startswith(f"cand.{cand}.source_hash "))
    assert stored.endswith("-" + _library()["version"])
