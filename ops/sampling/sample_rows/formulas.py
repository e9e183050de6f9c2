"""sample_rows in NumPy: an independent check of the oracle.

Written from the contract, not from the C++. Read next: ops/sampling/README.md, docs/testing.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .sampling_formulas import kept  # ops/sampling/formulas.py, as it is staged


def philox(seed: int, offset: int, row: int) -> int:
    """The first two 32-bit words of Philox4x32-10, as one number."""
    low = 2**32 - 1
    k = [seed & low, seed >> 32 & low]
    c = [offset & low, offset >> 32 & low, row & low, row >> 32 & low]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & low, a >> 32 ^ c[3] ^ k[1], a & low]
        k = [k[0] + 0x9E3779B9 & low, k[1] + 0xBB67AE85 & low]
    return c[1] << 32 | c[0]


def sample_rows(tensors: dict[str, Any], scalars: dict[str, Any], rounding: Any) -> tuple[Any, ...]:
    x, probs = tensors["x"], scalars["probs"]
    rows = x.reshape(int(np.prod(x.shape[:-1])), x.shape[-1])

    def each(name: str, absent: float) -> Any:
        given = tensors.get(name)
        return np.full(len(rows), absent) if given is None else np.asarray(given).reshape(-1)

    ids = np.full(len(rows), -1.0)
    columns = ("temperature", 1), ("top_k", 0), ("top_p", 1), ("min_p", 0), ("seeds", 0), (
        "offsets", 0,
    )  # fmt: skip
    for t, (row, heat, k, top_p, min_p, seed, offset) in enumerate(
        zip(rows, *(each(*column) for column in columns), strict=True)
    ):
        bad = np.isnan(row).any() or (row == np.inf).any() or (probs and (row < 0).any())
        if bad or row.size == 0 or row.max() == -np.inf or (probs and row.max() == 0):
            continue
        if heat == 0 and not probs:
            ids[t] = np.argmax(row)
            continue
        p = row / row.max() if probs else np.exp((row - row.max()) / heat)
        mass = np.where(kept(row, p, int(k), top_p, min_p), p, 0)
        place = 0 if tensors.get("seeds") is not None else t
        bits = philox(
            scalars["seed"] + int(seed) & 2**64 - 1, scalars["offset"] + int(offset), place
        )
        ids[t] = np.argmax(np.cumsum(mass) > bits / 2**64 * mass.sum())
    return (ids.reshape((*x.shape[:-1], 1)),)


FORMULAS = {"sample_rows": sample_rows}
