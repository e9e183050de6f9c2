"""Docstring pieces of quantize_group. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "quantize_group": {
        "summary": "Quantises groups of neighbouring columns to 8 bits, one scale per group.",
        "formula": "scale = max_group |x| / largest; q = round(x / scale)",
        "shapes": "x [*T, K] -> q [*T, K], scale [*T, ceil(K / group)]; the last may be shorter.",
        "dtypes": (
            "x f32, f16 or bf16; q f8e4m3 (none, the default: largest 448), f8e5m2 (57344) or i8 "
            "(127); scale f32."
        ),
        "aliasing": "Results share no memory with x: any overlap is refused.",
        "numerics": (
            "The scale is a rounded quotient; 1 for a group of zeros, 2^-126 or more; ue8m0: then "
            "rounded up to a power of two. q is "
            "x / scale to nearest even, saturated; where the quotient is within 5 roundings of "
            "f32 of a tie, either neighbour. NaN and inf go into the group's scale: what is "
            "dequantised is NaN. NaN stays NaN in f8 and is 0 in i8. Inside deterministic(), the "
            "same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "Micikevicius et al., FP8 Formats for Deep Learning, 2022; DeepGEMM's casts.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dtype": "of q; none: f8e4m3",
    "scale_dtype": "ue8m0: scales are rounded up to powers of two, and stay f32",
    "group": "columns that share a scale; GPUs are fast with 32, 64 and 128",
}
