"""Docstring pieces of scaled_mm_block. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "scaled_mm_block": {
        "summary": "Product of 8-bit codes with scales of 1×128 of a and of 128×128 of b.",
        "formula": "out = Σ over 128 of K of (a_scale · b_scale) · (a · b) + bias",
        "shapes": (
            "a [*M, K], b [K, N], a_scale [*M, ceil(K / 128)], b_scale [ceil(K / 128), "
            "ceil(N / 128)], bias [N] -> out [*M, N]; any strides of matrices: b = weight.T and "
            "b_scale = scale.T of quantize(weight, 'block128'), a_scale by rows or by columns. N "
            "and K need not divide by 128. Leading dimensions of a are rows, at one stride."
        ),
        "dtypes": (
            "a f8e4m3 or i8; b a's dtype; scales f32; bias f32, f16 or bf16; "
            "out bf16 (none, the default), f16 or f32."
        ),
        "aliasing": "out overlaps no input; inputs are never written.",
        "numerics": (
            "The sum of 128 terms (of i8 exact) is multiplied by the product of its scales and "
            "added up, in f32; bias; one rounding. NaN propagates; an infinite scale makes NaN of "
            "a sum of 0. GPUs and CPUs add up in other orders."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "DeepSeek-AI, DeepSeek-V3 Technical Report, 2024.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "a": "codes of the left factor",
    "b": "codes of the right factor; weight.T of a linear layer, without a copy",
    "a_scale": "what 128 codes of a row are multiplied with",
    "b_scale": "what 128×128 codes are multiplied with",
    "bias": "added to every row of the product, in the product's unit",
    "out_dtype": "dtype of the result; none: bf16",
}
