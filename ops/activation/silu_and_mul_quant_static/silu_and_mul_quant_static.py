"""Docstring pieces of silu_and_mul_quant_static. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "silu_and_mul_quant_static": {
        "summary": "silu_and_mul in 8 bits, with a scale that is given.",
        "formula": ("y = silu(x[:F]) · x[F:]; q = round(y / scale)"),
        "shapes": "x [*T, 2F], scale [] -> q [*T, F]; any leading dimensions, any strides.",
        "dtypes": "x f32, f16 or bf16; scale f32; q f8e4m3 (none, the default), f8e5m2 or i8.",
        "aliasing": "Results share no memory with inputs: any overlap is refused.",
        "numerics": (
            "One pass; y is f32 and rounded once, to q: nearest even, saturated; where the "
            "quotient is within some roundings of f32 of a tie, either neighbour. "
            "q is y / scale; infinities are saturated. "
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
    "scale": "what q is multiplied with to give y back",
    "dtype": "of q; none: f8e4m3",
}
