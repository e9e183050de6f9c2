"""The values of a case's float tensors: draws according to the schema's fill, and special values at
the first, last and tile-edge positions. Indices and integers come from the library (abi.py).

All draws come from one generator per case, so a seed reproduces a case on any machine. Read next:
run.py.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

VALUES = ("normal", "large", "nan", "inf", "negzero", "denormal", "positive", "mixed")
# The kinds that the rows of "mixed" cycle through: rows that share a warp or a vector loop then
# take every row-dependent branch, next to a row that does not.
_ROWS = ("normal", "near", "large", "nan", "zero", "tied")  # Inf beside large: Inf - Inf

# The ends of vectors, unrolled loops and cache blocks, and their neighbours.
_EDGES = tuple(sorted({e + d for e in (4, 8, 16, 32, 64, 128, 256, 4096) for d in (-1, 0)}))
# Scales at which a product of two values comes close to f32's limit, but a sum of a few thousand
# squares stays far from f64's; the largest f16 number is 65504.
_LARGE = {"float16": 150.0, "float8_e4m3fn": 64.0, "float8_e5m2": 150.0}
_SMALLEST = {
    "float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133,
    "float8_e4m3fn": 2.0**-9, "float8_e5m2": 2.0**-16,
}  # fmt: skip


def _edge_positions(width: int) -> list[int]:
    return sorted({0, width - 1, *(e for e in _EDGES if e < width)}) if width > 0 else []


def _special(rng: np.random.Generator, values: Any, value: str, dtype: np.dtype[Any]) -> None:
    """Puts special values into some rows, at a different edge in each; most rows stay ordinary, so
    a kernel cannot pass by writing one NaN everywhere."""
    rows = values.reshape(-1, values.shape[-1])
    positions = _edge_positions(rows.shape[1])
    if not positions or not len(rows):
        return
    if value in ("negzero", "denormal"):
        smallest = _SMALLEST.get(dtype.name, 2.0**-149)
        # A few steps from zero, of either sign.
        for row in rows:
            few = smallest * rng.integers(-5, 6, len(positions))
            row[positions] = few if value == "denormal" else -0.0
        if value == "denormal" and len(rows) > 1:
            rows[len(rows) // 2] = smallest * rng.integers(-5, 6, rows.shape[1])
        return
    special = itertools.cycle([np.nan] if value == "nan" else [np.inf, -np.inf])
    last = len(rows) - 1
    chosen = {0, last, last // 2} if last >= 5 else {last}
    places = (positions[-1], positions[0], positions[len(positions) // 2])
    for row, at in zip(sorted(chosen), places, strict=False):
        rows[row, at] = next(special)


def _mix(values: Any, dtype: np.dtype[Any]) -> None:
    rows = values.reshape(-1, values.shape[-1])
    for i, (row, kind) in enumerate(zip(rows, itertools.cycle(_ROWS), strict=False)):
        if kind == "near":  # apart in f32's last bits, alike in 16 bits
            row[:] = 1 + row * 2.0**-20
        elif kind == "large":
            row *= _LARGE.get(dtype.name, 2.0**60)
        elif kind == "zero":
            row[:] = 0
        elif kind == "tied":
            row[:] = np.round(row)
        elif kind == "nan" and row.size:
            row[_edge_positions(row.size)[i % len(_edge_positions(row.size))]] = np.nan


def drawn_here(fill: str, dtype: np.dtype[Any]) -> bool:
    """True if the harness draws the values (floats). Indices and integers come from the library,
    within their bounds."""
    return fill in ("normal", "positive", "negative") and dtype.kind not in "iub"


def draw(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], value: str, fill: str
) -> Any:
    """f64 values of one float tensor."""
    values = rng.standard_normal(shape)
    if fill == "negative":
        return -np.abs(values) - 0.0625
    if fill == "positive" or value == "positive":
        return np.abs(values) + 0.0625
    if len(shape) < 2:  # parameters: ordinary, so that what is special in rows shows up once
        return values
    if value == "large":
        values *= _LARGE.get(dtype.name, 2.0**60)
    elif value == "mixed":
        _mix(values, dtype)
    elif value != "normal":
        _special(rng, values, value, dtype)
    return values
