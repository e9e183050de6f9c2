"""Docstring pieces of dequantize_mxfp8. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "dequantize_mxfp8": {
        "summary": "Floats out of the codes and scales of quantize_mxfp8.",
        "formula": "y = q · scale of its 32 columns",
        "shapes": (
            "q [*T, K], scale [*T, ceil(K / 32)] -> y [*T, K]; any leading dimensions, any strides."
        ),
        "dtypes": "q f8e4m3; scale f8e8m0; y f32 (none, the default), f16 or bf16.",
        "aliasing": "The result shares no memory with inputs: any overlap is refused.",
        "numerics": "Products in f32, one rounding at the store. NaN of q or of a scale is NaN.",
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; nothing is "
            "written then."
        ),
        "source": "OCP Microscaling Formats (MX) Specification 1.0, 2023.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "out_dtype": "of y; none: f32",
}
