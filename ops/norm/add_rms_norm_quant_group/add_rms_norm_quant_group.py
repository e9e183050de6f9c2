"""Docstring pieces of add_rms_norm_quant_group. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "add_rms_norm_quant_group": {
        "summary": (
            "Adds a residual, keeps the sum, and normalises it by its root mean square "
            "in 8 bits, one scale per group of columns."
        ),
        "formula": (
            "h = round(x + residual); residual_out = h; "
            "y = h · rsqrt(mean_C(h²) + eps) · (weight + weight_offset); "
            "scale = max |y| / 448 of each group; q = round(y / scale)"
        ),
        "shapes": (
            "x [*T, C], weight [C], residual [*T, C] -> "
            "q [*T, C], residual_out [*T, C], scale [*T, ceil(C / group)]; the last may be shorter."
        ),
        "dtypes": (
            "x f32, f16 or bf16; weight x's dtype or f32; q f8e4m3; scale f32; residual and "
            "residual_out x's dtype."
        ),
        "aliasing": (
            "add_rms_norm_quant_group_(x, residual, ...) writes residual_out over residual; other "
            "overlaps are refused."
        ),
        "numerics": (
            "One pass; y is f32 and rounded once, to q: nearest even, saturated; where the "
            "quotient is within some roundings of f32 of a tie, either neighbour. "
            "The scale is a rounded quotient; 1 for a group of zeros, 2^-126 or more. "
            "NaN and inf make the values of a row NaN or 0, as rms_norm's, and NaN goes into its "
            "group's scale. "
            "Rows whose sum of squares f32 cannot hold, scaled as eps allows (2^80 with 1e-6), are "
            "undefined. Inside deterministic(), the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError (eps or "
            "weight_offset out of range); nothing is written then."
        ),
        "source": (
            "Zhang and Sennrich, Root Mean Square Layer Normalization, 2019; "
            "Micikevicius et al., FP8 Formats for Deep Learning, 2022."
        ),
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "residual": "added to x first, in x's unit",
    "group": "columns that share a scale; GPUs are fast with 32, 64 and 128",
}
