"""Docstring pieces of awq_dequantize. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "awq_dequantize": {
        "summary": "Converts a 4-bit weight, packed as in AWQ, to floats.",
        "formula": "y = (q − zero) · scale of the row's group; without qzeros, zero is 8",
        "shapes": "qweight [R·G, P], scales [R, 8P], qzeros [R, P] -> y [R·G, 8P]; any strides.",
        "dtypes": (
            "qweight and qzeros are i32: a word holds eight columns, in the order 0 2 4 6 1 3 5 7 "
            "from the lowest bits up; scales is f16, bf16 or f32; y has scales' dtype."
        ),
        "aliasing": "The result shares no memory with inputs: any overlap is refused.",
        "numerics": (
            "Computes in f32, where products with 16-bit scales are exact, and rounds once."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError. On error nothing is written."
        ),
        "source": "Lin et al., AWQ, 2023; the function of this name in vLLM and SGLang.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "qweight": "words of eight columns; a group has as many rows as qweight has per row of scales",
    "qzeros": "zeros of each group, packed the same way",
}
