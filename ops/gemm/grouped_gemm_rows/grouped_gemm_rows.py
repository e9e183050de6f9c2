"""Docstring pieces of grouped_gemm_rows. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "grouped_gemm_rows": {
        "summary": "Products of groups of neighbouring rows with a matrix of each group's own.",
        "formula": "out[m] = a[m] · weight[e]ᵀ for offsets[e] ≤ m < offsets[e + 1]",
        "shapes": (
            "a [M, K], weight [E, N, K], any strides, so that weights [E, K, N] are a transposed "
            "view; offsets [E + 1], ascending, what moe_permute gives -> out [M, N]."
        ),
        "dtypes": (
            "a f32, f16 or bf16; weight a's dtype; offsets i32 or i64; out a's dtype, or f32, f16, "
            "bf16 by out_dtype."
        ),
        "aliasing": "out overlaps no input; inputs are never written.",
        "numerics": (
            "Products and sums in f32, one rounding at the store; the same results in every run. "
            "Rows that no group has are not written. On a GPU offsets count as the nearest of "
            "0 … M, and those that descend make results undefined."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError; on CPUs ArgumentError for "
            "offsets outside 0 … M or that descend; nothing is written then."
        ),
        "source": "Gale et al., MegaBlocks, 2022; torch's grouped_mm; DeepGEMM, 2025.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "a": "rows, those of a group side by side",
    "weight": "a matrix of each group, as a linear layer has it",
    "offsets": "where groups begin, and the end; read on the device alone",
    "out_dtype": "dtype of the result; without it, a's",
}

LETTERS: dict[str, str] = {"M": "rows of all groups"}

# Its gradient, built from grouped products: gradient.py.
AUTOGRAD: dict[str, dict[str, str]] = {"grouped_gemm_rows": {"formula": "gradient"}}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`grouped_gemm`: `grouped_gemm_rows`, `grouped_gemm_masked`, also of f8 with scales of "
        "blocks; `grouped_gemm_k`; `fused_moe`",
        "`a[m] · weight[e]ᵀ` of each group of rows; of the first rows of each expert; sums over "
        "each group's rows; gated experts of each token",
        "matmul's code, a group at a time",
        "WGMMA (Hopper); mma.sync (sm_80 and later); IEEE f32, any layout",
    ),
]
