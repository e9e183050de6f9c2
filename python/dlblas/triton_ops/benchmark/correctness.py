"""Checks whether a tensor is close to another, with the caller's tolerances. The library's own
judge is ``dlblas.verify``, whose bounds are derived for each operator.

Read next: suite.py.
"""

from __future__ import annotations

from typing import Any

import torch

from ..._arguments import hinted
from ...errors import ShapeMismatchError

_MIN_SIZE = 1e-10  # added to the size of what is divided by


class _Distance:
    """Element-wise distances in f32: absolute, and relative to the expected value."""

    def __init__(self, actual: torch.Tensor, expected: torch.Tensor) -> None:
        if actual.shape != expected.shape:
            raise ShapeMismatchError(tuple(expected.shape), tuple(actual.shape), "actual")
        self.expected = expected.detach().to(actual.device).float()
        actual = actual.detach().float()
        # Two infinities of one sign have distance 0; NaN is beyond any tolerance.
        same = actual == self.expected
        self.absolute = (actual - self.expected).abs().masked_fill(same, 0)
        self.relative = (self.absolute / (self.expected.abs() + _MIN_SIZE)).masked_fill(same, 0)

    def numbers(self) -> dict[str, float]:
        found = {}
        for name, values in (("abs", self.absolute), ("rel", self.relative)):
            some = values if values.numel() else values.new_zeros(1)
            found[f"max_{name}_diff"] = float(some.max())
            found[f"mean_{name}_diff"] = float(some.mean())
        return found


@hinted
class CorrectnessVerifier:
    """Compares a kernel's results with those of a reference."""

    def __init__(self, rtol: float = 1e-3, atol: float = 1e-5) -> None:
        self.rtol, self.atol = rtol, atol

    def verify(self, actual: torch.Tensor, expected: torch.Tensor) -> tuple[bool, dict[str, Any]]:
        """Whether each element is within ``atol``, **or** within ``rtol`` of the expected value;
        and the largest and mean distances, and the number of elements beyond both tolerances."""
        apart = _Distance(actual, expected)
        inside = (apart.absolute <= self.atol) | (apart.relative <= self.rtol)
        right = bool(inside.all())
        return right, {
            "is_correct": right,
            **apart.numbers(),
            "num_violations": int((~inside).sum()),
            "total_elements": actual.numel(),
            "rtol": self.rtol,
            "atol": self.atol,
        }

    def verify_allclose(self, actual: torch.Tensor, expected: torch.Tensor) -> bool:
        """Whether each element is within ``atol + rtol · |expected|``, as in torch.allclose."""
        apart = _Distance(actual, expected)
        allowed = self.atol + self.rtol * apart.expected.abs()
        return bool((apart.absolute <= allowed).all())

    def compute_relative_error(self, actual: torch.Tensor, expected: torch.Tensor) -> float:
        """The largest relative error."""
        return _Distance(actual, expected).numbers()["max_rel_diff"]


@hinted
def verify_fp8_accuracy(
    fp8_result: torch.Tensor, fp16_baseline: torch.Tensor, max_relative_error: float = 0.01
) -> tuple[bool, dict[str, Any]]:
    """Whether every element's relative error is at most ``max_relative_error``. e4m3 has 3 mantissa
    bits: one rounding alone has an error of up to 6 %, so the default suits results with less."""
    numbers = _Distance(fp8_result, fp16_baseline).numbers()
    right = numbers["max_rel_diff"] <= max_relative_error
    return right, {
        "is_within_tolerance": right,
        "max_relative_error": numbers["max_rel_diff"],
        "mean_relative_error": numbers["mean_rel_diff"],
        "tolerance": max_relative_error,
        "max_abs_diff": numbers["max_abs_diff"],
        "mean_abs_diff": numbers["mean_abs_diff"],
    }


@hinted
def verify_nan_inf_propagation(
    output: torch.Tensor, input_has_nan: bool, input_has_inf: bool
) -> tuple[bool, dict[str, Any]]:
    """Whether a NaN in the input shows in the output, and an infinity as an infinity or a NaN."""
    has_nan, has_inf = bool(output.isnan().any()), bool(output.isinf().any())
    nan, inf = not input_has_nan or has_nan, not input_has_inf or has_inf or has_nan
    return nan and inf, {
        "is_correct": nan and inf,
        "input_has_nan": input_has_nan,
        "input_has_inf": input_has_inf,
        "output_has_nan": has_nan,
        "output_has_inf": has_inf,
        "nan_propagated": nan,
        "inf_propagated": inf,
    }
