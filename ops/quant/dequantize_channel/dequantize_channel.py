"""Docstring pieces of dequantize_channel. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "dequantize_channel": {
        "summary": "Converts 8-bit codes to floats, with one scale per column.",
        "formula": "y = q · scale of the column",
        "shapes": (
            "q [*T, K], scale [K] -> y [*T, K]; q and scale as quantize_channel returns them."
        ),
        "dtypes": (
            "q is f8e4m3, f8e5m2 or i8; scale is f32; y is f32 (none, the default), f16 or bf16."
        ),
        "aliasing": "The result shares no memory with q or scale: any overlap is refused.",
        "numerics": "Multiplies in f32 and rounds to y's dtype. NaN in q or in a scale gives NaN.",
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "The inverse of quantize_channel.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "q": "8-bit codes: f8 or i8",
    "scale": "factor per column",
    "out_dtype": "dtype of y; f32 if not given",
}
