"""Docstring pieces of silu_and_mul_quant_static. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "silu_and_mul_quant_static": {
        "summary": "silu_and_mul in 8 bits, with a given scale.",
        "formula": ("y = silu(x[:F]) · x[F:]; q = round(y / scale)"),
        "shapes": "x [*T, 2F], scale [] -> q [*T, F]; any leading dimensions, any strides.",
        "dtypes": (
            "x is f32, f16 or bf16; scale is f32; q is f8e4m3 (none, the default), f8e5m2 or i8."
        ),
        "aliasing": "Results share no memory with inputs: any overlap is refused.",
        "numerics": (
            "One pass. y is f32 and is rounded once, to q: to nearest even, saturating; within a "
            "few f32 roundings of a tie, q may be either neighbour. q is y / scale; infinities "
            "saturate. NaN stays NaN in f8 and becomes 0 in i8. Inside deterministic(), results "
            "have the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError (an odd last dimension), UnsupportedDtypeError, DeviceError, "
            "ArgumentError (on CPUs a scale of 0 or below). On error nothing is written."
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
    "scale": "multiply q by it to recover y",
    "dtype": "dtype of q; f8e4m3 if not given",
}
