"""Docstring pieces of silu_and_mul_quant_group. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "silu_and_mul_quant_group": {
        "summary": "silu_and_mul in 8 bits, one scale per group of columns.",
        "formula": (
            "y = silu(x[:F]) · x[F:]; scale = max |y| / largest of each group; q = round(y / scale)"
        ),
        "shapes": "x [*T, 2F] -> q [*T, F], scale [*T, ceil(F / group)]; the last may be shorter.",
        "dtypes": (
            "x f32, f16 or bf16; q f8e4m3 (none, the default: largest 448), f8e5m2 (57344) or i8 "
            "(127); scale f32."
        ),
        "aliasing": "Results share no memory with inputs: any overlap is refused.",
        "numerics": (
            "One pass; y is f32 and rounded once, to q: nearest even, saturated; where the "
            "quotient is within some roundings of f32 of a tie, either neighbour. "
            "The scale is a rounded quotient; 1 for a group of zeros, 2^-126 or more. "
            "NaN and inf go into the group's scale: what is dequantised is NaN. "
            "NaN stays NaN in f8 and is 0 in i8. Inside deterministic(), the same bits in any "
            "batch."
        ),
        "errors": (
            "ShapeMismatchError (an odd last dimension), UnsupportedDtypeError, DeviceError, "
            "ArgumentError; nothing is written then."
        ),
        "source": (
            "Shazeer, GLU Variants Improve Transformer, 2020; "
            "Micikevicius et al., FP8 Formats for Deep Learning, 2022."
        ),
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "x": "gate and up projection side by side: the first half is the gate",
    "group": "columns that share a scale; GPUs are fast with 32, 64 and 128",
    "dtype": "of q; none: f8e4m3",
}
