"""Frequencies of rotary angles under a model's ``rope_scaling``: linear, llama3 and YaRN, as in
transformers.

In: a mapping of numbers. Out: one frequency per pair, in radians per position, and the common
factor of both tables. Used by: ops/rope/api.py (``rope_tables``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .errors import ArgumentError, Error

_Numbers = Mapping[str, Any]
# rope_type -> the keys that its formula reads, besides ``_OF_ALL``.
_KEYS = {
    "linear": (),
    "llama3": ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor"),
    "yarn": (
        "original_max_position_embeddings", "beta_fast", "beta_slow", "attention_factor", "mscale",
        "mscale_all_dim", "truncate",
    ),
}  # fmt: skip
_OF_ALL = ("rope_type", "type", "rope_theta", "factor")


def frequencies(dim: int, theta: float, scaling: _Numbers | None) -> tuple[list[float], float]:
    """``(one frequency per pair, the factor of both tables)``."""
    plain = [theta ** (-2 * i / dim) for i in range(dim // 2)]
    if scaling is None:
        return plain, 1.0
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind not in _KEYS:
        raise refused("scaling", "a rope_type of linear, llama3 or yarn", repr(kind))
    known = (*_OF_ALL, *_KEYS[kind])
    for key, value in scaling.items():
        if value is not None and key not in known:  # it would change what a model computes
            raise refused("scaling", f"keys of {kind}: {', '.join(known)}", repr(key))
    if scaling.get("rope_theta", theta) not in (None, theta):
        raise refused("scaling", f"a rope_theta of theta, {theta}", repr(scaling["rope_theta"]))
    factor = _number(scaling, "factor")
    if kind == "linear":
        return [f / factor for f in plain], 1.0
    seen = _number(scaling, "original_max_position_embeddings")
    if kind == "llama3":
        return _llama3(plain, scaling, factor, seen), 1.0
    return _yarn(plain, dim, theta, scaling, factor, seen), _of_tables(scaling, factor)


def _llama3(plain: list[float], scaling: _Numbers, factor: float, seen: float) -> list[float]:
    low, high = _number(scaling, "low_freq_factor"), _number(scaling, "high_freq_factor")
    if not high > low:
        raise refused("scaling", "a high_freq_factor above low_freq_factor", high)

    def blended(f: float) -> float:
        turns = seen * f / (2 * math.pi)
        kept = min(1.0, max(0.0, (turns - low) / (high - low)))
        return kept * f + (1 - kept) * f / factor

    return [blended(f) for f in plain]


def _yarn(
    plain: list[float], dim: int, theta: float, scaling: _Numbers, factor: float, seen: float
) -> list[float]:
    fast, slow = _number(scaling, "beta_fast", 32.0), _number(scaling, "beta_slow", 1.0)
    if theta == 1:
        raise refused("theta", "another number than 1 with yarn", theta)

    def pair_of(turns: float) -> float:
        """The fractional index of the pair that makes so many turns over the positions a model has
        seen."""
        return dim * math.log(seen / (turns * 2 * math.pi)) / (2 * math.log(theta))

    first, last = pair_of(fast), pair_of(slow)
    if _flag(scaling, "truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, dim - 1)
    width = last - first if last > first else 0.001

    def blended(i: int, f: float) -> float:
        divided = min(1.0, max(0.0, (i - first) / width))
        return (1 - divided) * f + divided * f / factor

    return [blended(i, f) for i, f in enumerate(plain)]


def _of_tables(scaling: _Numbers, factor: float) -> float:
    """YaRN's factor of cosines and sines. mscale counts only if both numbers are given, as in
    DeepSeek's models."""

    def attention(mscale: float) -> float:
        return 0.1 * mscale * math.log(factor) + 1 if factor > 1 else 1.0

    own, of_all = (_number(scaling, name, 0.0) for name in ("mscale", "mscale_all_dim"))
    made = attention(own) / attention(of_all) if own and of_all else attention(1.0)
    return _number(scaling, "attention_factor", made)


def _number(scaling: _Numbers, name: str, absent: float | None = None) -> float:
    """The number of that name, which must be positive, or 0 if that is the default of an absent
    one."""
    value = scaling.get(name)
    if value is None and absent is not None:
        return absent
    if isinstance(value, (int, float)) and (value > 0 or value == absent):
        return float(value)
    raise refused("scaling", f"a positive {name}", repr(value))


def _flag(scaling: _Numbers, name: str, absent: bool) -> bool:
    value = scaling.get(name)
    if value is None or isinstance(value, bool):
        return absent if value is None else value
    raise refused("scaling", f"a {name} of True or False", repr(value))


def refused(argument: str, expected: str, got: Any) -> Error:
    return ArgumentError.from_library(
        f"rope_tables: {argument} is not possible; expected {expected}, got {got}",
        "rope_tables", argument, expected, str(got),
    )  # fmt: skip
