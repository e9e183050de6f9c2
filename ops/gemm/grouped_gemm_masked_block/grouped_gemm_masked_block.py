"""Docstring pieces of grouped_gemm_masked_block. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "grouped_gemm_masked_block": {
        "summary": (
            "grouped_gemm_masked of f8 codes, with one scale per 128 of a row and per 128 × 128 of "
            "weight."
        ),
        "formula": (
            "out[e, m] = Σ over blocks of 128 of K of (a_scale · weight_scale) · (a[e, m] · "
            "weight[e]ᵀ)"
        ),
        "shapes": (
            "a [E, M, K], a_scale [E, M, ceil(K/128)], weight [E, N, K], weight_scale "
            "[E, ceil(N/128), ceil(K/128)], masked_m [E], any strides -> out [E, M, N]."
        ),
        "dtypes": (
            "a is f8e4m3 or f8e5m2; weight has a's dtype; scales are f32; masked_m is i32 or i64; "
            "out is bf16, or out_dtype: f32, f16 or bf16."
        ),
        "aliasing": "out must not overlap an input; inputs are never written.",
        "numerics": (
            "Products are exact. Sums of 128 terms are f32, or those of Hopper's f8 tensor cores, "
            "which cut off what is 2^-13 of the largest term; factors and the sum over K are f32. "
            "Results are rounded once, at the store; every run gives the same results. Rows from "
            "masked_m on are not written."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError; ArgumentError on CPUs for a "
            "count outside 0 … M, which GPUs clamp. On error nothing is written."
        ),
        "source": "DeepSeek-V3, 2024; DeepGEMM, 2025.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "a": "codes of M row slots per expert",
    "weight": "one matrix per expert, in the layout of a linear layer",
    "masked_m": "number of rows of each expert, its first ones; read only on the device",
    "a_scale": 'factor per 128 codes of a row of a: quantize\'s "group128"',
    "weight_scale": 'factor per block of 128 × 128 codes: quantize\'s "block128" of each matrix',
    "out_dtype": "dtype of the result; bf16 if not given",
}

LETTERS: dict[str, str] = {"M": "row slots per expert"}
