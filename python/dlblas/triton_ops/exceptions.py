"""The errors of Triton Fused Operators: the library's own classes, under the names known there.

A call through these names raises what ``dlblas`` itself raises, so one ``except`` serves both.
Read next: ../errors.py.
"""

from ..errors import (
    DeviceError,
    NumericalOverflowError,
    ShapeMismatchError,
    TritonKernelError,
    TuningFailedError,
    UnsupportedDtypeError,
)

__all__ = [
    "DeviceError",
    "NumericalOverflowError",
    "ShapeMismatchError",
    "TritonKernelError",
    "TuningFailedError",
    "UnsupportedDtypeError",
]
