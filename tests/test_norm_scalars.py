"""Any weight_offset and any eps that is not negative: infinite, NaN, beyond f32, with rows of
zeros, tiny, huge or infinite values, in every CPU implementation, against the oracle; likewise in
the backward. On a GPU, every finite eps. A negative eps is refused. Read next:
ops/norm/norm_ref.hpp, cpu/row/exact.hpp.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import dlblas
import pytest
from dlblas import _native
from dlblas.harness import Case, load_registry
from dlblas.harness.call import Call

np = pytest.importorskip("numpy")

REGISTRY = load_registry()
INF, NAN = float("inf"), float("nan")
EPS = [NAN, INF, 5e-324, 1e-6, 1e38, 1e39, 1e77, 1e150, 1e308]
OFFSETS = [NAN, INF, -INF, -1e30, 5e-324, 0.1, -1e39, 1e308]
# tools/reliability.py requests more rounds.
ROUNDS = 20_000 if os.environ.get("DLBLAS_ATTACKS") == "whole" else 4000


def values(rng: Any, shape: tuple[int, ...], dtype: str) -> Any:
    x, mask = rng.standard_normal(shape), rng.random(shape)
    x *= rng.choice([1, 1, 1e-42, 1e-25, 1e30])
    kind = rng.integers(4)
    if kind == 1:
        x = np.where(mask < 0.3, 0.0, x)
    if kind == 2:
        x = np.where(mask < 0.1, INF, np.where(mask < 0.2, NAN, x))
    with np.errstate(all="ignore"):
        return x.astype(dtype)


@pytest.mark.parametrize("op", ["rms_norm", "add_rms_norm"])
def test_every_eps_and_offset(op: str, attacked: Callable[..., None]) -> None:
    row = _native.operator_row(op)
    names = [i["name"] for i in row["implementations"] if i["name"].startswith("cpu_")]
    rng, ran = np.random.default_rng(12), 0
    for _ in range(ROUNDS):
        dtype = str(rng.choice(["f4", "f2"]))
        shape = int(rng.integers(1, 5)), int(rng.integers(1, 70))
        x, weight = (
            values(rng, shape, dtype),
            values(rng, shape[1:], str(rng.choice(["f4", dtype]))),
        )
        if rng.integers(4) == 0:
            x = np.broadcast_to(x[:, :1], shape)
        args = (x, weight) if op == "rms_norm" else (x, weight, values(rng, shape, dtype))
        scalars = {
            "eps": float(rng.choice(EPS)),
            "weight_offset": float(rng.choice(OFFSETS)),
            "cast_before_weight": bool(rng.integers(2)),
        }
        name = str(rng.choice(names))
        try:
            with dlblas.pinned(op, name):
                y = getattr(dlblas, op)(*args, **scalars)
        except dlblas.errors.UnsupportedError:  # this CPU's level, or broadcast columns
            continue
        verdict = dlblas.verify(op, args, y, scalars)
        assert verdict.ok, f"{name} {shape} {dtype} {scalars}: {verdict}"
        ran += 1
    assert ran > ROUNDS // 2
    attacked(f"eps and values at the edges of f32, f16 and f64: {op}", ran)


# Gradients, inputs and weights so large or small that their products leave the range of f32, or
# that what remains of their difference does not fit f16.
SIZES = [0, 1e-42, 1e-38, 1e-25, 1e-12, 1, 1, 1, 1e12, 1e30, 3e38]
FINITE_EPS = [0.0, 5e-324, 1e-310, 1e-200, 1e-45, 1e-30, 1e-6, 1.0, 1e30, 3e38, 1e39, 1e77, 1e80]
FINITE_EPS += [1e120, 1e200, 1.7e308]


def gradient_call(rng: Any) -> tuple[tuple[Any, Any, Any], dict[str, Any]]:
    """Arguments (dy, x, weight) in f64, which the caller rounds; and the scalars."""

    def draw(shape: tuple[int, ...]) -> Any:
        drawn = rng.standard_normal(shape) * rng.choice(SIZES)
        kind = rng.integers(8)
        if kind == 0:
            drawn = np.where(rng.random(shape) < 0.5, 0.0, drawn)
        if kind == 1:
            drawn = np.where(rng.random(shape) < 0.1, INF, drawn)
        return drawn

    shape = int(rng.integers(1, 5)), int(rng.integers(1, 40))
    scalars = {
        "eps": float(rng.choice(FINITE_EPS)),
        "weight_offset": float(rng.choice([0, 0, 1, -1, 1e-30])),
        "cast_before_weight": bool(rng.integers(2)),
    }
    return (draw(shape), draw(shape), draw(shape[1:])), scalars


def test_every_eps_in_the_backward(attacked: Callable[..., None]) -> None:
    rng = np.random.default_rng(13)
    for call in range(ROUNDS):
        args, scalars = gradient_call(rng)
        dtype = str(rng.choice(["f4", "f2"]))
        dtypes = [dtype, dtype, str(rng.choice(["f4", dtype]))]
        with np.errstate(all="ignore"):
            dy, x, weight = (a.astype(d) for a, d in zip(args, dtypes, strict=True))
        results = dlblas.rms_norm_backward(dy, x, weight, **scalars)
        verdict = dlblas.verify("rms_norm_backward", (dy, x, weight), results, scalars)
        assert verdict.ok, f"call {call}: {x.shape} {dtype} {scalars}: {verdict}"
    attacked("eps and values at the edges of f32, f16 and f64: rms_norm_backward", ROUNDS)


@pytest.mark.parametrize("shift", range(8))
def test_small_gradients_beside_small_inputs(shift: int) -> None:
    """Their products vanish in f32, yet the sum of them is most of dx."""
    rng = np.random.default_rng(shift)
    x = (rng.standard_normal((4, 28)) * 1e-15 * 10**shift).astype("f4")
    dy = (rng.standard_normal((4, 28)) * 3e-39).astype("f4")
    dy[2] = 0  # a masked token
    weight = rng.standard_normal(28).astype("f4")
    results = dlblas.rms_norm_backward(dy, x, weight, eps=0.0)
    assert dlblas.verify("rms_norm_backward", (dy, x, weight), results, {"eps": 0.0}).ok
    assert not results[0][2].any()


@pytest.mark.gpu
@pytest.mark.parametrize("op", ["rms_norm", "add_rms_norm", "rms_norm_backward"])
def test_every_finite_eps_on_a_gpu(op: str) -> None:
    torch = pytest.importorskip("torch")
    row = _native.operator_row(op)
    names = [i["name"] for i in row["implementations"] if i["name"].startswith("cuda_")]
    rng, ran = np.random.default_rng(14), 0
    for call in range(600):
        (dy, x, weight), scalars = gradient_call(rng)
        dtype = [torch.float32, torch.float16, torch.bfloat16][rng.integers(3)]
        dtypes = [dtype, dtype, [dtype, torch.float32][rng.integers(2)]]
        # A gradient whose products with x or the weight leave f32 is tested on the CPU only: on a
        # GPU it may become NaN where f64 has ±Inf.
        dy = np.where(np.abs(dy) < 1e-20, 0.0, dy)
        dy, x, weight = (
            torch.tensor(a).to(d).cuda() for a, d in zip((dy, x, weight), dtypes, strict=True)
        )
        factor = (weight.double() + scalars["weight_offset"]).abs().clamp(min=1)
        fits = (dy.double().abs() * factor).sum(-1, keepdim=True) < 1e38
        dy = torch.where(fits & dy.isfinite(), dy, 0)
        args = {"rms_norm": (x, weight), "add_rms_norm": (x, weight, dy)}.get(op, (dy, x, weight))
        name = str(rng.choice(names))
        try:
            with dlblas.pinned(op, name):
                results = getattr(dlblas, op)(*args, **scalars)
        except dlblas.errors.UnsupportedError:
            continue
        ran += 1
        verdict = dlblas.verify(op, args, results, scalars)
        assert verdict.ok, f"call {call}: {name} {tuple(x.shape)} {dtype} {scalars}: {verdict}"
    assert ran > 100


WITH_EPS = [name for name, op in REGISTRY.operators.items() if "eps: float" in op["schema"]]


@pytest.mark.parametrize("op", WITH_EPS)
def test_a_negative_eps_is_refused(op: str) -> None:
    row = next(r for r in REGISTRY.rows if r["op"] == op and "test" in r["use"])
    args = {**row["args"], "eps": -1e-6}
    case = Case(op, row["name"], row["dims"], row["dtypes"][0], "contiguous", "normal", args)
    with pytest.raises(
        dlblas.errors.ArgumentError, match="eps is out of range; expected 0"
    ) as caught:
        Call(REGISTRY, case, 1).run(0xA5)
    assert caught.value.argument == "eps"
