"""Docstring pieces of awq_dequantize. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "awq_dequantize": {
        "summary": "A weight of 4 bits, packed as AWQ packs it, as floats.",
        "formula": "y = (q − zero) · scale, of the row's group; without qzeros zero is 8",
        "shapes": "qweight [R·G, P], scales [R, 8P], qzeros [R, P] -> y [R·G, 8P]; any strides.",
        "dtypes": (
            "qweight, qzeros i32: a word has eight columns, in the order 0 2 4 6 1 3 5 7 from the "
            "lowest bits up; scales f16, bf16 or f32; y scales' dtype."
        ),
        "aliasing": "The result shares no memory with inputs: any overlap is refused.",
        "numerics": "In f32, where products with scales of 16 bits are exact; one rounding.",
        "errors": "ShapeMismatchError, UnsupportedDtypeError, DeviceError; nothing is written.",
        "source": "Lin et al., AWQ, 2023; the function of this name in vLLM and SGLang.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "qweight": "words of eight columns; a group is as many rows as qweight has to a row of scales",
    "qzeros": "the zeros of a group, packed alike",
}
