"""Docstring pieces of grouped_gemm_k. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "grouped_gemm_k": {
        "summary": "Sums products over the rows of each group: the gradient of the group's matrix.",
        "formula": "out[e] = Σ a[m]ᵀ · b[m] over offsets[e] ≤ m < offsets[e + 1]",
        "shapes": "a [M, N], b [M, K], offsets [E + 1], ascending, any strides -> out [E, N, K].",
        "dtypes": (
            "a is f32, f16 or bf16; b has a's dtype; offsets is i32 or i64; out has a's dtype, or "
            "out_dtype: f32, f16 or bf16."
        ),
        "aliasing": "out must not overlap an input; inputs are never written.",
        "numerics": (
            "Products and sums are f32, rounded once at the store; every run gives the same "
            "results. A group without rows gives zeros. Offsets are clamped to 0 … M."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError. On error nothing is written."
        ),
        "source": "Gale et al., MegaBlocks, 2022; DeepGEMM, 2025.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "a": "rows, those of a group adjacent: the gradient with respect to a grouped_gemm's result",
    "b": "rows of the same groups: the input of that grouped_gemm",
    "offsets": "start of each group, then the end of the last; read only on the device",
    "out_dtype": "dtype of the result; a's if not given",
}

LETTERS: dict[str, str] = {"M": "rows of all groups; terms of the sums"}

# Its gradient, built from products of the groups' rows: gradient.py.
AUTOGRAD: dict[str, dict[str, str]] = {
    "grouped_gemm_k": {"formula": "gradient", "second": "formula"}
}
