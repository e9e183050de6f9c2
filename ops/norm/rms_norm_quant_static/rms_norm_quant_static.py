"""Docstring pieces of rms_norm_quant_static. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "rms_norm_quant_static": {
        "summary": "Root-mean-square normalisation in 8 bits, with a given scale.",
        "formula": (
            "y = x · rsqrt(mean_C(x²) + eps) · (weight + weight_offset); q = round(y / scale)"
        ),
        "shapes": ("x [*T, C], weight [C], scale [] -> q [*T, C]."),
        "dtypes": "x is f32, f16 or bf16; weight has x's dtype or f32; q is f8e4m3; scale is f32.",
        "aliasing": ("Results share no memory with inputs: any overlap is refused."),
        "numerics": (
            "One pass. y is f32 and is rounded once, to q: to nearest even, saturating; within a "
            "few f32 roundings of a tie, q may be either neighbour. q is y / scale; infinities "
            "saturate, NaN stays NaN. Rows whose sum of squares f32 cannot hold, scaled as eps "
            "allows (2^80 with 1e-6), are undefined. Inside deterministic(), results have the same "
            "bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError (eps or "
            "weight_offset out of range; on CPUs a scale of 0 or below). On error nothing is "
            "written."
        ),
        "source": (
            "Zhang and Sennrich, Root Mean Square Layer Normalization, 2019; "
            "Micikevicius et al., FP8 Formats for Deep Learning, 2022."
        ),
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "scale": "multiply q by it to recover the normalised values",
}
