"""Docstring pieces of quantize_mxfp4. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "quantize_mxfp4": {
        "summary": "Quantises to OCP's MXFP4: e2m1, a power of two per 32 columns.",
        "formula": "scale = 2^(floor(log2(max |x|)) - 2) of each 32 columns; q = round(x / scale)",
        "shapes": "x [*T, K], K even -> q [*T, K / 2], scale [*T, ceil(K / 32)]; any strides.",
        "dtypes": (
            "x f32, f16 or bf16; q u8: two e2m1 per byte, the first in the low half; scale f8e8m0."
        ),
        "aliasing": "Results share no memory with x: any overlap is refused.",
        "numerics": (
            "Exact but for the one rounding of elements, to nearest even; what is up to a third "
            "beyond the largest saturates, as OCP's rule has it. No scale is below 2^-127. A "
            "block with NaN or an infinity has the scale NaN, and NaN (e2m1: the largest) in all "
            "codes."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; nothing is "
            "written then."
        ),
        "source": "OCP Microscaling Formats (MX) Specification 1.0, 2023.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {}
