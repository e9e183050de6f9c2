"""Docstring pieces of scale_rows. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "scale_rows": {
        "summary": "Multiplies each row by its own scale, and by a weight.",
        "formula": "y = x · scale · (weight + weight_offset)",
        "shapes": (
            "x [*T, C], scale [*T, 1], weight [C] or None -> y [*T, C]; any leading dimensions, "
            "any strides."
        ),
        "dtypes": (
            "x is f32, f16 or bf16; scale is f32; weight has x's dtype or f32; y has x's dtype."
        ),
        "aliasing": "scale_rows_(x, ...) or out=x writes y over x; other overlaps are refused.",
        "numerics": (
            "Both products and weight + weight_offset are rounded to f32, y once to x's dtype; "
            "cast_before_weight=True rounds x · scale to x's dtype as well. With scale = "
            "rsqrt(mean(x²) + eps) as torch computes it, results have the bits of Hugging Face's "
            "LlamaRMSNorm. No sums: every implementation gives the same bits, in any batch. No "
            "gradient."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": (
            "The second half of RMSNorm (Zhang and Sennrich, 2019) where the statistic is known: "
            "from a distributed norm, or from sums in another library's order."
        ),
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "scale": "factor per row",
}
