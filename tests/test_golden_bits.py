"""rms_norm and add_rms_norm give the bits that they gave: one hash for each instruction-set level,
operator, dtype, width and option, of the rows that an LCG makes.

golden_bits.json holds them. They were made by ``python tests/test_golden_bits.py --write`` from the
build of 1ae2092 (24 November 2026, g++ 12.2, AMD EPYC, all three levels), in which both are row
programs. A kernel may change its bits only on purpose: then write them again, and say so in
CHANGELOG.md. No estimate of a square root is used, so CPUs of a level agree.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import sys
from typing import Any

import dlblas
import numpy as np
import pytest

ml_dtypes = pytest.importorskip("ml_dtypes")
GOLDEN = pathlib.Path(__file__).resolve().parent / "golden_bits.json"
LEVELS = ("cpu_baseline", "cpu_avx2", "cpu_avx512")
DTYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
WIDTHS = (1, 31, 1000, 4096, 5121)
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "eps": {"eps": 0.25},
    "offset": {"weight_offset": 1.0},
    "cast": {"cast_before_weight": True},
}
ROWS = 5


def made(count: int, seed: int) -> Any:
    """Values of about unit size with 16 random bits each: every dtype rounds some of them."""
    state = (np.arange(count, dtype=np.uint64) + np.uint64(seed)) * np.uint64(6364136223846793005)
    state ^= state >> np.uint64(29)
    state *= np.uint64(1442695040888963407)
    drawn = (state >> np.uint64(48)).astype(np.int64) - 32768
    return (drawn / 16384).astype(np.float32)


def hash_of(op: str, level: str, dtype: str, width: int, option: str) -> str:
    x = made(ROWS * width, 1).reshape(ROWS, width).astype(DTYPES[dtype])
    weight = made(width, 2).astype(DTYPES[dtype])
    arrays = {"x": x, "weight": weight}
    if op == "add_rms_norm":
        arrays["residual"] = made(ROWS * width, 3).reshape(ROWS, width).astype(DTYPES[dtype])
    dlblas.pin(op, level)
    try:
        results = getattr(dlblas, op)(**arrays, **OPTIONS[option])
    finally:
        dlblas.pin(op, None)
    digest = hashlib.sha256()
    for result in results if isinstance(results, tuple) else (results,):
        digest.update(np.ascontiguousarray(result).view(np.uint8).tobytes())
    return digest.hexdigest()[:16]


def hashes(op: str, level: str, dtype: str) -> dict[str, str]:
    return {
        f"{op} {level} {dtype} {width} {option}": hash_of(op, level, dtype, width, option)
        for width in WIDTHS
        for option in OPTIONS
    }


def levels() -> list[str]:
    """Those that run here."""
    x, w = np.ones((1, 64), np.float32), np.ones(64, np.float32)
    rows = dlblas.explain("rms_norm", x, w).as_dict()["candidates"]
    return [row["implementation"] for row in rows
            if row["supports"] and row["implementation"] in LEVELS]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("op", ["rms_norm", "add_rms_norm"])
def test_bits_are_those_that_were_kept(op: str, level: str, dtype: str) -> None:
    if level not in levels():
        pytest.skip(f"{level} does not run here")
    kept = json.loads(GOLDEN.read_text(encoding="utf-8"))
    now = hashes(op, level, dtype)
    assert {name: kept[name] for name in now} == now


def test_a_hash_sees_each_bit_and_option() -> None:
    kept = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert len(kept) == 2 * len(LEVELS) * len(DTYPES) * len(WIDTHS) * len(OPTIONS)
    for width in WIDTHS[1:]:
        for dtype in DTYPES:
            some = [kept[f"rms_norm cpu_baseline {dtype} {width} {option}"] for option in OPTIONS]
            # Without rounding in between, f32 has no other result for "cast".
            assert len(set(some)) >= len(OPTIONS) - (dtype == "f32")


def write() -> None:
    missing = {*LEVELS} - {*levels()}
    if missing:
        raise SystemExit(f"golden_bits: {', '.join(sorted(missing))} do not run here")
    kept: dict[str, str] = {}
    for op in ("rms_norm", "add_rms_norm"):
        for level in LEVELS:
            for dtype in DTYPES:
                kept |= hashes(op, level, dtype)
    GOLDEN.write_text(json.dumps(kept, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        raise SystemExit(__doc__)
    write()
