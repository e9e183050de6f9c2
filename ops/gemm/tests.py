"""What tests must know of several matrix products. Read next: tests/rooms.py."""

from __future__ import annotations

import random

import numpy as np
from batch_parts import Cut, Given, rows_of_masked, some_of


def rows_of_matrices(given: Given, pick: random.Random) -> Cut | None:
    """Rows of each matrix of a batch."""
    rows = given["a"].shape[1]
    if given["a"].ndim != 3 or rows < 2:
        return None
    kept = some_of(rows, pick)
    return Cut({"M": kept}, {}, f"rows {kept} of each matrix")


def rows_of_groups(given: Given, pick: random.Random) -> Cut | None:
    """Consecutive rows; they may start or end inside a group."""
    rows = len(given["rows" if "rows" in given else "a"])
    if rows < 2:
        return None
    kept = some_of(rows, pick)
    offsets = np.clip(given["offsets"] - kept.start, 0, kept.stop - kept.start)
    return Cut({"M": kept}, {"offsets": offsets.astype(given["offsets"].dtype)}, f"rows {kept}")


# In sums of 16 to 64 terms some elements reach a chain's worst case, and these draws have few
# elements.
FEW_TERMS = {"f32": 1.25}
# Of four sums of 2^24 products of codes, the largest was 0.4 of their deviation.
OF_CODES = {"f32": 2.5}

# Both add 16 terms of K at a time to one f32 sum.
TENSOR_CORES = ("cuda_mma", "cuda_wgmma")

TESTS = {
    "matmul": {"table": ("M", "K", "N"), "alike": TENSOR_CORES},
    "batched_matmul": {"hidden": FEW_TERMS, "parts": rows_of_matrices, "alike": TENSOR_CORES},
    "batched_matmul_nt": {"hidden": FEW_TERMS, "parts": rows_of_matrices, "alike": TENSOR_CORES},
    "batched_scaled_mm": {"hidden": OF_CODES, "parts": rows_of_matrices},
    "linear_residual": {"alike": TENSOR_CORES},
    "lora_expand": {"hidden": FEW_TERMS, "bounded": ("token_lora",)},
    "lora_shrink": {"hidden": FEW_TERMS, "bounded": ("token_lora",)},
    "scaled_mm_block": {"hidden": OF_CODES},
    "grouped_gemm_rows": {"faults": "normal", "parts": rows_of_groups, "alike": TENSOR_CORES},
    "grouped_gemm_gathered": {"faults": "normal", "parts": rows_of_groups, "alike": TENSOR_CORES},
    "grouped_gemm_rows_block": {"faults": "normal", "hidden": OF_CODES, "parts": rows_of_groups},
    "grouped_gemm_masked": {
        "faults": "normal",
        "parts": rows_of_masked,
        "bounded": ("masked_m",),
        "alike": TENSOR_CORES,
    },
    "grouped_gemm_masked_block": {
        "faults": "normal",
        "hidden": OF_CODES,
        "parts": rows_of_masked,
        "bounded": ("masked_m",),
    },
}
