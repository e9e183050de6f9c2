"""Docstring pieces of grouped_gemm_gathered. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "grouped_gemm_gathered": {
        "summary": (
            "Multiplies rows that a list names, group by group, by the group's own matrix: the "
            "first product of experts, without a sorted copy of the tokens."
        ),
        "formula": "out[m] = a[rows[m]] · weight[e]ᵀ for offsets[e] ≤ m < offsets[e + 1]",
        "shapes": (
            "a [T, K], weight [E, N, K], any strides, so weights [E, K, N] are passed as a "
            "transposed view; offsets [E + 1], ascending; rows [M] -> out [M, N]."
        ),
        "dtypes": (
            "a is f32, f16 or bf16; weight has a's dtype; offsets and rows are i32 or i64; out has "
            "a's dtype, or out_dtype: f32, f16 or bf16."
        ),
        "aliasing": "out must not overlap an input; inputs are never written.",
        "numerics": (
            "Products and sums are f32, rounded once at the store; every run gives the same "
            "results. Where rows[m] is negative, zeros take the place of a's row, so that out[m] "
            "is written as 0 for a finite weight; a GPU treats any number from T on likewise. "
            "Rows outside all groups are not written. A GPU clamps offsets to 0 … M; offsets "
            "that descend make results undefined."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError; on CPUs ArgumentError for "
            "offsets that are outside 0 … M or descend, and for rows from T on. On error nothing "
            "is written."
        ),
        "source": "Gale et al., MegaBlocks, 2022; vLLM's fused_moe.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "a": "rows in any order, such as tokens",
    "weight": "one matrix per group, in the layout of a linear layer",
    "offsets": "start of each group, then the end of the last; read only on the device",
    "rows": (
        "the row of a for each row of the result, as moe_sort lists them; −1: none; read only on "
        "the device"
    ),
    "out_dtype": "dtype of the result; a's if not given",
}

LETTERS: dict[str, str] = {"M": "rows of all groups", "T": "rows of a"}

# Its gradient, built from grouped products: gradient.py.
AUTOGRAD: dict[str, dict[str, str]] = {"grouped_gemm_gathered": {"formula": "gradient"}}
