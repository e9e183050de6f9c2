"""Docstring pieces of quantize_group. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "quantize_group": {
        "summary": "Quantises groups of adjacent columns to 8 bits, one scale per group.",
        "formula": "scale = max_group |x| / largest; q = round(x / scale)",
        "shapes": (
            "x [*T, K] -> q [*T, K], scale [*T, ceil(K / group)]; the last group may be shorter."
        ),
        "dtypes": (
            "x is f32, f16 or bf16; q is f8e4m3 (none, the default; largest value 448), f8e5m2 "
            "(57344) or i8 (127); scale is f32."
        ),
        "aliasing": "Results share no memory with x: any overlap is refused.",
        "numerics": (
            "The scale is a rounded quotient, at least 2^-126; 1 for a group of zeros; ue8m0 then "
            "rounds it up to a power of two. q is x / scale, rounded to nearest even, saturating; "
            "within 5 f32 roundings of a tie, q may be either neighbour. NaN and inf propagate to "
            "the group's scale: dequantised values are NaN. NaN stays NaN in f8 and becomes 0 in "
            "i8. Inside deterministic(), results have the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "Micikevicius et al., FP8 Formats for Deep Learning, 2022; DeepGEMM's casts.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dtype": "dtype of q; f8e4m3 if not given",
    "scale_dtype": "ue8m0 rounds scales up to powers of two; they stay f32",
    "group": "columns that share a scale; GPUs are fast at 32, 64 and 128",
}
