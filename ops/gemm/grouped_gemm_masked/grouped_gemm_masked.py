"""Docstring pieces of grouped_gemm_masked. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "grouped_gemm_masked": {
        "summary": "Products of the first rows of each expert with the expert's matrix.",
        "formula": "out[e, m] = a[e, m] · weight[e]ᵀ for m < masked_m[e]",
        "shapes": "a [E, M, K], weight [E, N, K], masked_m [E], any strides -> out [E, M, N].",
        "dtypes": (
            "a f32, f16 or bf16; weight a's dtype; masked_m i32 or i64; out a's dtype, or f32, "
            "f16, bf16 by out_dtype."
        ),
        "aliasing": "out overlaps no input; inputs are never written.",
        "numerics": (
            "Products and sums in f32, one rounding at the store; the same results in every run. "
            "Rows from masked_m on are not written; counts are taken within 0 … M."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError; nothing is written then."
        ),
        "source": "DeepGEMM, 2025.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "a": "room for M rows of each expert",
    "weight": "a matrix of each expert, as a linear layer has it",
    "masked_m": "how many rows each expert has; read on the device alone",
    "out_dtype": "dtype of the result; without it, a's",
}

LETTERS: dict[str, str] = {"M": "rows that each expert has room for"}
