"""Docstring pieces of grouped_gemm_rows. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "grouped_gemm_rows": {
        "summary": "Multiplies each group of adjacent rows by the group's own matrix.",
        "formula": "out[m] = a[m] · weight[e]ᵀ for offsets[e] ≤ m < offsets[e + 1]",
        "shapes": (
            "a [M, K], weight [E, N, K], any strides, so weights [E, K, N] are passed as a "
            "transposed view; offsets [E + 1], ascending, as moe_permute returns them -> out [M, "
            "N]."
        ),
        "dtypes": (
            "a is f32, f16 or bf16; weight has a's dtype; offsets is i32 or i64; out has a's "
            "dtype, or out_dtype: f32, f16 or bf16."
        ),
        "aliasing": "out must not overlap an input; inputs are never written.",
        "numerics": (
            "Products and sums are f32, rounded once at the store; every run gives the same "
            "results. Rows outside all groups are not written. A GPU clamps offsets to 0 … M; "
            "offsets that descend make results undefined."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError; on CPUs ArgumentError for "
            "offsets that are outside 0 … M or descend. On error nothing is written."
        ),
        "source": "Gale et al., MegaBlocks, 2022; torch's grouped_mm; DeepGEMM, 2025.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "a": "rows, those of a group adjacent",
    "weight": "one matrix per group, in the layout of a linear layer",
    "offsets": "start of each group, then the end of the last; read only on the device",
    "out_dtype": "dtype of the result; a's if not given",
}

LETTERS: dict[str, str] = {"M": "rows of all groups"}

# Its gradient, built from grouped products: gradient.py.
AUTOGRAD: dict[str, dict[str, str]] = {
    "grouped_gemm_rows": {"formula": "gradient", "second": "formula"}
}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`grouped_gemm`: `grouped_gemm_rows`, `grouped_gemm_masked`, `grouped_gemm_k`, also in f8 "
        "with block scales; `grouped_gemm_gathered`; `fused_moe`",
        "`a[m] · weight[e]ᵀ` for each group of rows, for rows that a list names, or for the first "
        "rows of each expert; sums over each group's rows; gated experts of each token",
        "matmul's code, one group at a time",
        "WGMMA (Hopper); mma.sync (sm_80 and later); IEEE f32, any layout",
    ),
]
