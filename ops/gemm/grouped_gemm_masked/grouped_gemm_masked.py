"""Docstring pieces of grouped_gemm_masked. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "grouped_gemm_masked": {
        "summary": "Multiplies the first rows of each expert by the expert's matrix.",
        "formula": "out[e, m] = a[e, m] · weight[e]ᵀ for m < masked_m[e]",
        "shapes": "a [E, M, K], weight [E, N, K], masked_m [E], any strides -> out [E, M, N].",
        "dtypes": (
            "a is f32, f16 or bf16; weight has a's dtype; masked_m is i32 or i64; out has a's "
            "dtype, or out_dtype: f32, f16 or bf16."
        ),
        "aliasing": "out must not overlap an input; inputs are never written.",
        "numerics": (
            "Products and sums are f32, rounded once at the store; every run gives the same "
            "results. Rows from masked_m on are not written."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError; ArgumentError on CPUs for a "
            "count outside 0 … M, which GPUs clamp. On error nothing is written."
        ),
        "source": "DeepGEMM, 2025.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "a": "M row slots per expert",
    "weight": "one matrix per expert, in the layout of a linear layer",
    "masked_m": "number of rows of each expert, its first ones; read only on the device",
    "out_dtype": "dtype of the result; a's if not given",
}

LETTERS: dict[str, str] = {"M": "row slots per expert"}
