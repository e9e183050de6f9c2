"""Formulas shared by this family, in NumPy and f64. Written from the contract, not from the C++.

Read next: matmul/formulas.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

_erf = np.vectorize(math.erf, otypes=[np.float64])

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "": lambda x: x,
    "relu": lambda x: np.where(np.isnan(x), x, np.maximum(x, 0.0)),
    "leaky_relu": lambda x: np.where(x >= 0, x, x * 0.01),
    "gelu": lambda x: 0.5 * x * (1.0 + _erf(x / math.sqrt(2.0))),
    "silu": lambda x: x / (1.0 + np.exp(-x)),
}


def product(subscripts: str, tensors: dict[str, Any], scalars: dict[str, Any]) -> tuple[Any, ...]:
    """act(a · b + bias). einsum sums every term; BLAS may skip zeros and so lose a NaN."""
    out = np.einsum(subscripts, tensors["a"], tensors["b"])
    if "bias" in tensors:
        out = out + tensors["bias"]
    return (ACTIVATIONS[scalars["activation"]](out),)


def scaled(a: Any, weight: Any, rows: Any, blocks: Any) -> Any:
    """a · weightᵀ of codes: one factor per 128 codes of a row of a and per 128 × 128 of weight."""
    out = np.zeros((a.shape[0], weight.shape[0]))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for part in range(rows.shape[1]):
            k = slice(128 * part, 128 * part + 128)
            columns = np.repeat(blocks[:, part], 128)[: weight.shape[0]]
            factors = np.multiply.outer(rows[:, part], columns).astype(np.float64)
            out += factors * np.einsum("mk,nk->mn", a[:, k], weight[:, k])
    return out


def places_in_panels(n: int, k: int, pairs: bool) -> Any:
    """Where weight_panels puts the elements of a weight [n, k]: their places in the result. Blocks
    of 512 depths, in them panels of 32 columns, in them depths; ``pairs``: with 32 of them whole,
    pairs of depths beside each other. The last n % 32 columns stay."""
    of = np.arange(n * k).reshape(n, k)
    whole = n // 32 * 32
    order = []
    for block in range(0, k, 512):
        for panel in range(0, whole, 32):
            part = of[panel : panel + 32, block : min(block + 512, k)]
            chunks = part.shape[1] // 32 * 32 if pairs else 0
            paired = part[:, :chunks].reshape(32, chunks // 2, 2).transpose(1, 0, 2)
            order += [paired.reshape(-1), part[:, chunks:].T.reshape(-1)]
    order.append(of[whole:].reshape(-1))
    places = np.empty(n * k, np.int64)
    places[np.concatenate(order)] = np.arange(n * k)
    return places.reshape(n, k)
