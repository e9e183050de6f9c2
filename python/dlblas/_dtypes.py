"""Element types: the library's names, DLPack codes, and what NumPy, torch and ml_dtypes call them.

Read next: _hooks.py, which handles dtype objects.
"""

from __future__ import annotations

from typing import Any

# name: (DLPack code, bits, NumPy's or ml_dtypes' name)
TABLE: dict[str, tuple[int, int, str]] = {
    "f32": (2, 32, "float32"),
    "f16": (2, 16, "float16"),
    "bf16": (4, 16, "bfloat16"),
    "f8e4m3": (10, 8, "float8_e4m3fn"),
    "f8e5m2": (12, 8, "float8_e5m2"),
    "i8": (0, 8, "int8"),
    "i32": (0, 32, "int32"),
    "i64": (0, 64, "int64"),
    "u8": (1, 8, "uint8"),
    "bool": (6, 8, "bool"),
    "f64": (2, 64, "float64"),
    "f8e8m0": (14, 8, "float8_e8m0fnu"),
    "f4x2": (17, 8, "float4_e2m1fn_x2"),  # two a byte: DLPack's (17, 4) with two lanes
}
NAMES: dict[tuple[int, int], str] = {(code, bits): name for name, (code, bits, _) in TABLE.items()}
_CANONICAL: dict[str, str] = {name: name for name in TABLE}
_CANONICAL.update({long: name for name, (_, _, long) in TABLE.items()})
_CANONICAL.update({"half": "f16", "double": "f64", "float": "f32", "bool_": "bool"})
# Accepted as strings only: a dtype object named "float8_e4m3" is another type (ml_dtypes').
_WRITTEN = {
    "fp32": "f32", "single": "f32", "fp16": "f16", "fp64": "f64", "fp8": "f8e4m3",
    "fp8_e4m3": "f8e4m3", "fp8_e4m3fn": "f8e4m3", "float8_e4m3": "f8e4m3", "f8e4m3fn": "f8e4m3",
    "e4m3": "f8e4m3", "e4m3fn": "f8e4m3", "fp8_e5m2": "f8e5m2", "e5m2": "f8e5m2", "int": "i32",
    "long": "i64", "e8m0": "f8e8m0",
}  # fmt: skip


def name_of(dtype: Any) -> str | None:
    """``"f32"`` for "f32", "float32", "FP32", ``numpy.float32`` or ``torch.float32``; else None.

    The result is always a string of the tables above: the extension keeps its address during a
    call.
    """
    if isinstance(dtype, str):
        word = dtype.rpartition(".")[2]
        return _CANONICAL.get(word) or _WRITTEN.get(word.lower()) or _CANONICAL.get(word.lower())
    dtype = getattr(dtype, "__name__", None) or getattr(dtype, "name", None) or str(dtype)
    return _CANONICAL.get(dtype.rpartition(".")[2])


def names() -> list[tuple[str, str]]:
    """Every accepted name of a dtype, with its name in the table."""
    return [*_CANONICAL.items(), *_WRITTEN.items()]
