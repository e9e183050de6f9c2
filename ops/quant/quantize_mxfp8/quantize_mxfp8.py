"""Docstring pieces of quantize_mxfp8. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "quantize_mxfp8": {
        "summary": "Quantises to OCP's MXFP8: e4m3, one power-of-two scale per 32 columns.",
        "formula": "scale = 2^(floor(log2(max |x|)) - 8) of each 32 columns; q = round(x / scale)",
        "shapes": (
            "x [*T, K] -> q [*T, K], scale [*T, ceil(K / 32)]; any leading dimensions, any strides."
        ),
        "dtypes": "x is f32, f16 or bf16; q is f8e4m3; scale is f8e8m0.",
        "aliasing": "Results share no memory with x: any overlap is refused.",
        "numerics": (
            "Exact except for one rounding of each element, to nearest even; values up to a "
            "seventh beyond the largest saturate, as OCP's rule requires. Scales are at least "
            "2^-127. A block with NaN or an infinity has the scale NaN, and NaN in all codes."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "OCP Microscaling Formats (MX) Specification 1.0, 2023.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {}
