"""Docstring pieces of dequantize_channel. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "dequantize_channel": {
        "summary": "Floats out of 8-bit codes and a scale of each column.",
        "formula": "y = q · scale of the column",
        "shapes": "q [*T, K], scale [K] -> y [*T, K], as quantize_channel gives them.",
        "dtypes": "q f8e4m3, f8e5m2 or i8; scale f32; y f32 (none, the default), f16 or bf16.",
        "aliasing": "The result shares no memory with q or scale: any overlap is refused.",
        "numerics": "A product in f32, rounded to y's dtype. NaN of q or of a scale is NaN.",
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "The inverse of quantize_channel.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "q": "codes: f8 or i8",
    "scale": "what a column's codes are multiplied with",
    "out_dtype": "of y; none: f32",
}
