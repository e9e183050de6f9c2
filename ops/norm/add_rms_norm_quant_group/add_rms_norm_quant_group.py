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
            "x [*T, C], weight [C], residual [*T, C] -> q [*T, C], residual_out [*T, C], scale "
            "[*T, ceil(C / group)]; the last group may be shorter."
        ),
        "dtypes": (
            "x is f32, f16 or bf16; weight has x's dtype or f32; q is f8e4m3; scale is f32; "
            "residual and residual_out have x's dtype."
        ),
        "aliasing": (
            "add_rms_norm_quant_group_(x, residual, ...) writes residual_out over residual; other "
            "overlaps are refused."
        ),
        "numerics": (
            "One pass. y is f32 and is rounded once, to q: to nearest even, saturating; within a "
            "few f32 roundings of a tie, q may be either neighbour. The scale is a rounded "
            "quotient, at least 2^-126; 1 for a group of zeros. NaN and inf make the values of a "
            "row NaN or 0, as in rms_norm, and NaN propagates to its group's scale. Rows whose sum "
            "of squares f32 cannot hold, scaled as eps allows (2^80 with 1e-6), are undefined. "
            "Inside deterministic(), results have the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError (eps or "
            "weight_offset out of range). On error nothing is written."
        ),
        "source": (
            "Zhang and Sennrich, Root Mean Square Layer Normalization, 2019; "
            "Micikevicius et al., FP8 Formats for Deep Learning, 2022."
        ),
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "residual": "added to x first, in x's units",
    "group": "columns that share a scale; GPUs are fast at 32, 64 and 128",
}
