"""Docstring pieces of mm_w4a16_gptq. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "mm_w4a16_gptq": {
        "summary": "Multiplies by a 4-bit weight, packed as in GPTQ.",
        "formula": (
            "y = x · w, w = round((q − zero) · scale) in x's dtype; zero = stored + 1 with "
            "zeros_minus_one, 8 without zeros"
        ),
        "shapes": (
            "x [*M, 8Q], qweight [Q, N], "
            "scales [8Q / group, N], zeros [8Q / group, ceil(N / 8)] -> y [*M, N]."
        ),
        "dtypes": "x is f16 or bf16; scales and y have x's dtype; words are as in gptq_dequantize.",
        "aliasing": "The result shares no memory with inputs: any overlap is refused.",
        "numerics": (
            "Weights are as gptq_dequantize returns them; products and sums are f32, rounded once "
            "at the store."
        ),
        "errors": (
            "ShapeMismatchError (8Q is not a multiple of group), UnsupportedDtypeError, "
            "DeviceError, ArgumentError (leading dimensions that do not flatten). On error nothing "
            "is written."
        ),
        "source": "Frantar et al., GPTQ, 2022.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "qweight": "words of eight rows",
    "zeros": "zeros of each group, in words of eight columns",
    "zeros_minus_one": (
        "if true, zeros holds zero − 1, as AutoGPTQ writes it; if false, zero, as GPTQModel's v2 "
        "does"
    ),
}
