"""Docstring pieces of dequantize_mxfp8. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "dequantize_mxfp8": {
        "summary": "Converts the codes and scales of quantize_mxfp8 to floats.",
        "formula": "y = q · scale of its 32 columns",
        "shapes": (
            "q [*T, K], scale [*T, ceil(K / 32)] -> y [*T, K]; any leading dimensions, any strides."
        ),
        "dtypes": "q is f8e4m3; scale is f8e8m0; y is f32 (none, the default), f16 or bf16.",
        "aliasing": "The result shares no memory with inputs: any overlap is refused.",
        "numerics": (
            "Multiplies in f32 and rounds once, at the store. NaN in q or in a scale gives NaN."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "OCP Microscaling Formats (MX) Specification 1.0, 2023.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "out_dtype": "dtype of y; f32 if not given",
}
