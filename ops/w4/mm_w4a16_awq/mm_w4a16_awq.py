"""Docstring pieces of mm_w4a16_awq. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "mm_w4a16_awq": {
        "summary": "Multiplies by a 4-bit weight, packed as in AWQ.",
        "formula": (
            "y = x · w, w = round((q − zero) · scale) in x's dtype; without zeros, zero is 8"
        ),
        "shapes": (
            "x [*M, K], qweight [K, P], scales [K / group, 8P], zeros [K / group, P] -> y [*M, 8P]."
        ),
        "dtypes": "x is f16 or bf16; scales and y have x's dtype; words are as in awq_dequantize.",
        "aliasing": "The result shares no memory with inputs: any overlap is refused.",
        "numerics": (
            "Weights are as awq_dequantize returns them; products and sums are f32, rounded once "
            "at the store."
        ),
        "errors": (
            "ShapeMismatchError (K is not a multiple of group), UnsupportedDtypeError, "
            "DeviceError, ArgumentError (leading dimensions that do not flatten). On error nothing "
            "is written."
        ),
        "source": "Lin et al., AWQ, 2023.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "qweight": "words of eight columns",
    "zeros": "zeros of each group, in words of eight columns",
}
