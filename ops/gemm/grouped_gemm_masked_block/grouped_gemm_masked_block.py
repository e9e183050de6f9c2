"""Docstring pieces of grouped_gemm_masked_block. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "grouped_gemm_masked_block": {
        "summary": "grouped_gemm_masked of f8 codes, with scales of rows of 128 and of 128 × 128.",
        "formula": (
            "out[e, m] = Σ over 128 of K of (a_scale · weight_scale) · (a[e, m] · weight[e]ᵀ)"
        ),
        "shapes": (
            "a [E, M, K], a_scale [E, M, ceil(K/128)], weight [E, N, K], weight_scale "
            "[E, ceil(N/128), ceil(K/128)], masked_m [E], any strides -> out [E, M, N]."
        ),
        "dtypes": (
            "a f8e4m3 or f8e5m2; weight a's dtype; scales f32; masked_m i32 or i64; out bf16, or "
            "f32, f16, bf16 by out_dtype."
        ),
        "aliasing": "out overlaps no input; inputs are never written.",
        "numerics": (
            "Products are exact. Sums of 128 are f32's, or those of Hopper's f8 tensor cores, "
            "which cut what is 2^-13 of the largest term; factors and the sum over K are f32. "
            "One rounding at the store; the same results in every run. "
            "Rows from masked_m on are not written."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError; nothing is written then."
        ),
        "source": "DeepSeek-V3, 2024; DeepGEMM, 2025.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "a": "codes of M rows of each expert",
    "weight": "a matrix of each group, as a linear layer has it",
    "masked_m": "how many rows each expert has; read on the device alone",
    "a_scale": 'what 128 codes of a row of a are multiplied by: quantize\'s "group128"',
    "weight_scale": 'what a block of 128 × 128 is: quantize\'s "block128" of each matrix',
    "out_dtype": "dtype of the result; without it, bf16",
}

LETTERS: dict[str, str] = {"M": "rows that each expert has room for"}
