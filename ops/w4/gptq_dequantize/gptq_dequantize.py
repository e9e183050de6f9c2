"""Docstring pieces of gptq_dequantize. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "gptq_dequantize": {
        "summary": "A weight of 4 bits, packed as GPTQ packs it, as floats.",
        "formula": (
            "y = (q − zero) · scale, of the row's group; zero = stored + 1 with zeros_minus_one, "
            "8 without qzeros"
        ),
        "shapes": (
            "qweight [Q, N], scales [8Q / group, N], qzeros [8Q / group, ceil(N / 8)] -> y [8Q, "
            "N]; any strides. Rows in order: no permutation of them (g_idx)."
        ),
        "dtypes": (
            "qweight i32: a word has eight rows; qzeros i32: a word has eight columns; both in "
            "order from the lowest bits up; scales f16, bf16 or f32; y scales' dtype."
        ),
        "aliasing": "The result shares no memory with inputs: any overlap is refused.",
        "numerics": "In f32, where products with scales of 16 bits are exact; one rounding.",
        "errors": (
            "ShapeMismatchError (8Q is no multiple of group), UnsupportedDtypeError, DeviceError; "
            "nothing is written."
        ),
        "source": "Frantar et al., GPTQ, 2022; AutoGPTQ's files.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "qweight": "words of eight rows",
    "qzeros": "the zeros of a group, eight columns a word",
    "zeros_minus_one": "qzeros holds zero − 1, as AutoGPTQ writes it; false: as GPTQModel's v2",
}
