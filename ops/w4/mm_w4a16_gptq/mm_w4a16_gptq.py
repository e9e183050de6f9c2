"""Docstring pieces of mm_w4a16_gptq. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "mm_w4a16_gptq": {
        "summary": "Products with a weight of 4 bits, packed as GPTQ packs it.",
        "formula": (
            "y = x · w, w = round((q − zero) · scale) in x's type; "
            "zero = stored + 1 with zeros_minus_one, 8 without zeros"
        ),
        "shapes": (
            "x [*M, 8Q], qweight [Q, N], "
            "scales [8Q / group, N], zeros [8Q / group, ceil(N / 8)] -> y [*M, N]."
        ),
        "dtypes": "x f16 or bf16; scales and y x's dtype; words as gptq_dequantize takes them.",
        "aliasing": "The result shares no memory with inputs: any overlap is refused.",
        "numerics": (
            "Weights as gptq_dequantize gives them; products and sums f32, one rounding at the "
            "store."
        ),
        "errors": (
            "ShapeMismatchError (8Q is no multiple of group), UnsupportedDtypeError, DeviceError, "
            "ArgumentError (leading dimensions that do not flatten); nothing is written."
        ),
        "source": "Frantar et al., GPTQ, 2022.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "qweight": "words of eight rows",
    "zeros": "the zeros of a group, eight columns a word",
    "zeros_minus_one": "zeros holds zero − 1, as AutoGPTQ writes it; false: as GPTQModel's v2",
}
