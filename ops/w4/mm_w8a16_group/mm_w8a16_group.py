"""Docstring pieces of mm_w8a16_group. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "mm_w8a16_group": {
        "summary": "Multiplies by a weight of 8-bit codes, with a scale per output or per group.",
        "formula": (
            "y = scale · (x · qᵀ) + bias if K ≤ group; else y = x · round(q · scale)ᵀ + bias"
        ),
        "shapes": (
            "x [*T, K], qweight [N, K], scale [N, ⌈K / group⌉], bias [N] -> y [*T, N]; leading "
            "dimensions of x are rows; C++ and C need one common stride, Python copies others."
        ),
        "dtypes": (
            "x is f16 or bf16, qweight i8, scale f32, bias f32 or x's dtype; y has x's dtype. All "
            "codes are exact in f16 and bf16."
        ),
        "aliasing": "The result shares no memory with inputs: any overlap is refused.",
        "numerics": (
            "Products and sums are f32. One scale per output multiplies the sum of x times the "
            "codes, in f32; with groups the weight is rounded to x's dtype first, as "
            "dequantize_group returns it. Then the bias is added and the result rounded once."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError (leading "
            "dimensions that do not flatten). On error nothing is written."
        ),
        "source": "Dettmers et al., LLM.int8(), 2022; codes and scales as quantize returns them.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "qweight": "codes of the weight, a row per output",
    "scale": "factor per output, or per group of a row",
    "bias": "added to every row of the product",
    "group": "neighbouring codes of a row that share a scale",
}
LETTERS: dict[str, str] = {
    "N": "outputs: rows of the weight",
    "K": "columns of the weight: terms of each dot product",
}
