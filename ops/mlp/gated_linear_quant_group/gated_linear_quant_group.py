"""Docstring pieces of gated_linear_quant_group. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "gated_linear_quant_group": {
        "summary": "The gated part of a feed-forward layer in 8 bits, one scale per 128 columns.",
        "formula": (
            "y = silu(x · w_gateᵀ) ⊙ (x · w_upᵀ); scale = max |y| / 448 of each 128 columns; q = "
            "round(y / scale)"
        ),
        "shapes": (
            "x [*T, K], w_gate [F, K], w_up [F, K] -> q [*T, F], scale [*T, ceil(F / 128)]; any "
            "strides of matrices. With more dimensions, the leading ones of x are rows; C++ and C "
            "need one common stride, Python copies others."
        ),
        "dtypes": "x is f32, f16 or bf16; both weights have x's dtype; q is f8e4m3, scale is f32.",
        "aliasing": "Results must not overlap an input; inputs are never written.",
        "numerics": (
            "Products, sums, gate and y are f32 and never rounded; q is rounded to nearest even "
            "and saturates. A group of zeros has a scale of 1; NaN makes its group's scale NaN. "
            "Scales are at least 2⁻¹²⁶. Inside deterministic(), a row has the same bits in any "
            "batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "DeepSeek-AI, DeepSeek-V3 Technical Report, 2024.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "w_gate": "weight whose product goes through silu",
    "w_up": "weight whose product is gated",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "K": "terms of each dot product: the width of x",
    "F": "columns of the result: the feed-forward width",
}
