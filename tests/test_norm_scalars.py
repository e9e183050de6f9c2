"""Any eps and weight_offset: infinite, not a number, beyond f32, with rows of zeros, tiny, huge or
infinite values, in every CPU implementation, against the oracle. GPU kernels hold eps in f32 and
are not asked for more. Read next: ops/norm/norm_ref.cpp, ops/norm/norm_rows_cpu.cpp.
"""

from __future__ import annotations

from typing import Any

import dlblas
import pytest

np = pytest.importorskip("numpy")

INF, NAN = float("inf"), float("nan")
EPS = [NAN, INF, -INF, -1e30, 5e-324, 1e-6, 1e38, 1e39, 1e77, 1e150, 1e308]
OFFSETS = [NAN, INF, -INF, -1e30, 5e-324, 0.1, -1e39, 1e308]
ROUNDS = 4000


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
def test_every_eps_and_offset(op: str) -> None:
    row = next(row for row in dlblas.info()["operators"] if row["name"] == op)
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
