"""CPU implementations of row programs that this machine can run, one per instruction set; the
operators that have implementations for GPUs."""

from __future__ import annotations

import dlblas

_ISAS = ("baseline", "avx2", "avx512")
_HERE = _ISAS.index(dlblas.info()["devices"][0]["isa"])
LEVELS = [f"cpu_{isa}" for isa in _ISAS[: _HERE + 1]]
ON_GPUS = sorted(
    row["name"]
    for row in dlblas.info()["operators"]
    if any(i["backend"] == "cuda" for i in row["implementations"])
)
