"""Docstring pieces of mm_w4a16_awq. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "mm_w4a16_awq": {
        "summary": "Products with a weight of 4 bits, packed as AWQ packs it.",
        "formula": (
            "y = x · w, w = round((q − zero) · scale) in x's type; without zeros zero is 8"
        ),
        "shapes": (
            "x [*M, K], qweight [K, P], scales [K / group, 8P], zeros [K / group, P] -> y [*M, 8P]."
        ),
        "dtypes": "x f16 or bf16; scales and y x's dtype; words as awq_dequantize takes them.",
        "aliasing": "The result shares no memory with inputs: any overlap is refused.",
        "numerics": (
            "Weights as awq_dequantize gives them; products and sums f32, one rounding at the "
            "store."
        ),
        "errors": (
            "ShapeMismatchError (K is no multiple of group), UnsupportedDtypeError, DeviceError, "
            "ArgumentError (leading dimensions that do not flatten); nothing is written."
        ),
        "source": "Lin et al., AWQ, 2023.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "qweight": "words of eight columns",
    "zeros": "the zeros of a group, eight columns a word",
}
