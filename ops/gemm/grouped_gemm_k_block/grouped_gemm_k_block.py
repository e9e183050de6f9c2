"""Docstring pieces of grouped_gemm_k_block. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "grouped_gemm_k_block": {
        "summary": (
            "grouped_gemm_k of f8 codes, with one scale per 128 rows of each column of a and of b."
        ),
        "formula": (
            "out[e] = Σ over blocks of 128 of M of (a_scale · b_scale) · Σ a[m]ᵀ · b[m] over the "
            "block's m with offsets[e] ≤ m < offsets[e + 1]"
        ),
        "shapes": (
            "a [M, N], a_scale [ceil(M/128), N], b [M, K], b_scale [ceil(M/128), K], offsets "
            "[E + 1], ascending, any strides -> out [E, N, K]. Blocks are counted from row 0, not "
            "from a group's first row: row m has the scales m // 128, whatever its group. So their "
            "number does not depend on the groups, and groups of any length may share a block. "
            "Codes of groups that were each padded to 128 rows, as DeepGEMM has them, fit as they "
            "are."
        ),
        "dtypes": (
            "a is f8e4m3 or f8e5m2; b has a's dtype; scales are f32; offsets is i32 or i64; out is "
            "bf16, or out_dtype: f32, f16 or bf16."
        ),
        "aliasing": "out must not overlap an input; inputs are never written.",
        "numerics": (
            "Products are exact. Sums of a block's rows, factors and the sum over blocks are f32. "
            "Results are rounded once, at the store; every run gives the same results. A group "
            "without rows gives zeros, whatever the scales; rows and blocks of other groups have "
            "no influence. Offsets are clamped to 0 … M."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError. On error nothing is written."
        ),
        "source": "DeepSeek-V3, 2024; DeepGEMM, 2025.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "a": "codes of rows, those of a group adjacent; contiguous along M is fastest on a GPU",
    "b": "codes of the same rows, likewise",
    "offsets": "start of each group, then the end of the last; read only on the device",
    "a_scale": 'factor per 128 rows of a column of a: of quantize(a.T, "group128"), transposed',
    "b_scale": "the same of b",
    "out_dtype": "dtype of the result; bf16 if not given",
}

LETTERS: dict[str, str] = {"M": "rows of all groups; terms of the sums"}
