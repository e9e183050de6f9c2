"""Docstring pieces of quantize_static. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "quantize_static": {
        "summary": "Quantises to 8 bits with a given scale.",
        "formula": "q = round(x / scale)",
        "shapes": "x [*T, K], scale [] -> q [*T, K]; any leading dimensions, any strides.",
        "dtypes": (
            "x is f32, f16 or bf16; scale is f32; q is f8e4m3 (none, the default), f8e5m2 or i8."
        ),
        "aliasing": "The result shares no memory with x or scale: any overlap is refused.",
        "numerics": (
            "Rounds to nearest even and saturates, infinities too; within 5 f32 roundings of a "
            "tie, q may be either neighbour. NaN stays NaN in f8 and becomes 0 in i8."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError (on CPUs a "
            "scale of 0 or below). On error nothing is written."
        ),
        "source": "Micikevicius et al., FP8 Formats for Deep Learning, 2022.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dtype": "dtype of q; f8e4m3 if not given",
    "scale": "multiply q by it to recover x",
}
