"""Docstring pieces of grouped_gemm_k. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "grouped_gemm_k": {
        "summary": "Products summed over the rows of each group: the gradient of its matrix.",
        "formula": "out[e] = Σ a[m]ᵀ · b[m] over offsets[e] ≤ m < offsets[e + 1]",
        "shapes": "a [M, N], b [M, K], offsets [E + 1], ascending, any strides -> out [E, N, K].",
        "dtypes": (
            "a f32, f16 or bf16; b a's dtype; offsets i32 or i64; out a's dtype, or f32, f16, bf16 "
            "by out_dtype."
        ),
        "aliasing": "out overlaps no input; inputs are never written.",
        "numerics": (
            "Products and sums in f32, one rounding at the store; the same results in every run. A "
            "group without rows has zeros. Offsets are taken within 0 … M."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError; nothing is written then."
        ),
        "source": "Gale et al., MegaBlocks, 2022; DeepGEMM, 2025.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "a": "rows, those of a group side by side: what arrives at a grouped_gemm's result",
    "b": "rows of the same groups: what the grouped_gemm was given",
    "offsets": "where groups begin, and the end; read on the device alone",
    "out_dtype": "dtype of the result; without it, a's",
}

LETTERS: dict[str, str] = {"M": "rows of all groups, terms of the sums"}
