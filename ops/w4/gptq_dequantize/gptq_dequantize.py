"""Docstring pieces of gptq_dequantize. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "gptq_dequantize": {
        "summary": "Converts a 4-bit weight, packed as in GPTQ, to floats.",
        "formula": (
            "y = (q − zero) · scale of the row's group; zero = stored + 1 with zeros_minus_one, 8 "
            "without qzeros"
        ),
        "shapes": (
            "qweight [Q, N], scales [8Q / group, N], qzeros [8Q / group, ceil(N / 8)] -> y [8Q, "
            "N]; any strides. Rows are in order: no permutation (g_idx)."
        ),
        "dtypes": (
            "qweight is i32: a word holds eight rows; qzeros is i32: a word holds eight columns; "
            "both in order from the lowest bits up; scales is f16, bf16 or f32; y has scales' "
            "dtype."
        ),
        "aliasing": "The result shares no memory with inputs: any overlap is refused.",
        "numerics": (
            "Computes in f32, where products with 16-bit scales are exact, and rounds once."
        ),
        "errors": (
            "ShapeMismatchError (8Q is not a multiple of group), UnsupportedDtypeError, "
            "DeviceError. On error nothing is written."
        ),
        "source": "Frantar et al., GPTQ, 2022; AutoGPTQ's files.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "qweight": "words of eight rows",
    "qzeros": "zeros of each group, in words of eight columns",
    "zeros_minus_one": (
        "if true, qzeros holds zero − 1, as AutoGPTQ writes it; if false, zero, as GPTQModel's v2 "
        "does"
    ),
}
