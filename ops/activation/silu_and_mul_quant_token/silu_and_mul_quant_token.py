"""Docstring pieces of silu_and_mul_quant_token. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "silu_and_mul_quant_token": {
        "summary": "silu_and_mul in 8 bits, one scale per row.",
        "formula": ("y = silu(x[:F]) · x[F:]; scale = max_F |y| / largest; q = round(y / scale)"),
        "shapes": "x [*T, 2F] -> q [*T, F], scale [*T, 1]; any leading dimensions, any strides.",
        "dtypes": (
            "x is f32, f16 or bf16; q is f8e4m3 (none, the default; largest value 448), f8e5m2 "
            "(57344) or i8 (127); scale is f32."
        ),
        "aliasing": "Results share no memory with inputs: any overlap is refused.",
        "numerics": (
            "One pass. y is f32 and is rounded once, to q: to nearest even, saturating; within a "
            "few f32 roundings of a tie, q may be either neighbour. The scale is a rounded "
            "quotient, at least 2^-126; 1 for a row of zeros. NaN and inf propagate to the row's "
            "scale: dequantised values are NaN. NaN stays NaN in f8 and becomes 0 in i8. Inside "
            "deterministic(), results have the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError (an odd last dimension), UnsupportedDtypeError, DeviceError, "
            "ArgumentError. On error nothing is written."
        ),
        "source": (
            "Shazeer, GLU Variants Improve Transformer, 2020; "
            "Micikevicius et al., FP8 Formats for Deep Learning, 2022."
        ),
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "x": "gate and up projections, concatenated; the first half is the gate",
    "dtype": "dtype of q; f8e4m3 if not given",
}
