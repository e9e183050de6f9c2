"""Structures of the C ABI in memory, by the field offsets of tests/abi.txt: any field can be set
wrong. Used by: calls_c_abi.py."""

from __future__ import annotations

import ctypes
import pathlib
import re
from typing import Any

ABI = (pathlib.Path(__file__).resolve().parents[1] / "abi.txt").read_text(encoding="utf-8")
LAYOUTS: dict[str, dict[str, tuple[int, int]]] = {}
for _line in ABI.splitlines():
    if _found := re.match(r"struct dlblas_(\w+) (\d+)", _line):
        _fields = LAYOUTS.setdefault(_found[1], {"": (0, int(_found[2]))})
    elif _found := re.match(r"  (\w+) at (\d+), (\d+)", _line):
        _fields[_found[1]] = (int(_found[2]), int(_found[3]))


class Struct:
    """A structure of the ABI by its layout; keeps alive what its pointers point to."""

    def __init__(self, name: str, /, **fields: Any) -> None:
        self.name, self.layout = name, LAYOUTS[name]
        self.kept: list[Any] = []
        self.bytes: Any = (ctypes.c_uint8 * self.layout[""][1])()
        self.bytes.kept = self.kept
        if "size" in self.layout:
            self.set("size", len(self.bytes))
        for field, value in fields.items():
            self.set(field, value)

    @property
    def address(self) -> int:
        return ctypes.addressof(self.bytes)

    def set(self, field: str, value: Any) -> None:
        at, size = self.layout[field]
        if isinstance(value, float):
            ctypes.c_double.from_buffer(self.bytes, at).value = value
            return
        if not isinstance(value, int):
            self.kept.append(value)
            value = _address(value)
        self.bytes[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")


def _address(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, Struct):
        return value.address
    if isinstance(value, bytes):
        return ctypes.cast(ctypes.c_char_p(value), ctypes.c_void_p).value or 0
    if isinstance(value, ctypes._CFuncPtr):
        return ctypes.cast(value, ctypes.c_void_p).value or 0
    return ctypes.addressof(value)


def pointers(items: list[Any]) -> Any:
    made = (ctypes.c_void_p * max(len(items), 1))(*map(_address, items))
    made.kept = items  # type: ignore[attr-defined]
    return made


def structs(items: list[Struct]) -> Any:
    size = len(items[0].bytes)
    made = (ctypes.c_uint8 * (size * len(items)))()
    for i, item in enumerate(items):
        made[i * size : (i + 1) * size] = bytes(item.bytes)
    made.kept = items  # type: ignore[attr-defined]
    return made
