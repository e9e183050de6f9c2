"""Docstring pieces of quantize_static. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "quantize_static": {
        "summary": "Quantises to 8 bits with a scale that is given.",
        "formula": "q = round(x / scale)",
        "shapes": "x [*T, K], scale [] -> q [*T, K]; any leading dimensions, any strides.",
        "dtypes": "x f32, f16 or bf16; scale f32; q f8e4m3 (none, the default), f8e5m2 or i8.",
        "aliasing": "The result shares no memory with x or scale: any overlap is refused.",
        "numerics": (
            "To nearest even, saturated, infinities too; where the quotient is within 5 roundings "
            "of f32 of a tie, either neighbour. NaN stays NaN in f8 and is 0 in i8."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "Micikevicius et al., FP8 Formats for Deep Learning, 2022.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dtype": "of q; none: f8e4m3",
    "scale": "what q is multiplied with to give x back",
}
