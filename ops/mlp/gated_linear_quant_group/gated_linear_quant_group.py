"""Docstring pieces of gated_linear_quant_group. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "gated_linear_quant_group": {
        "summary": "The gated part of a feed-forward layer in 8 bits, a scale for 128 columns.",
        "formula": (
            "y = silu(x · w_gateᵀ) ⊙ (x · w_upᵀ); scale = max |y| / 448 of 128 columns; q = "
            "round(y / scale)"
        ),
        "shapes": (
            "x [*T, K], w_gate [F, K], w_up [F, K] -> q [*T, F], scale [*T, ceil(F / 128)]; any "
            "strides of matrices. Of more dimensions, the leading ones of x are rows, at one "
            "stride."
        ),
        "dtypes": "x f32, f16 or bf16; both weights x's dtype; q f8e4m3, scale f32.",
        "aliasing": "Results overlap no input; inputs are never written.",
        "numerics": (
            "Products, sums, gate and y in f32, never rounded; q to nearest even, saturated. A "
            "group of zeros has the scale 1; a NaN makes its scale NaN. Scales are no smaller than "
            "2⁻¹²⁶. Inside deterministic() a row has the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "DeepSeek-AI, DeepSeek-V3 Technical Report, 2024.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "w_gate": "the weight whose product goes through silu",
    "w_up": "the weight whose product is gated",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "K": "terms of each sum of products: the width of x",
    "F": "columns of the result: the feed-forward width",
}
