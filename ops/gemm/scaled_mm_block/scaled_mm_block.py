"""Docstring pieces of scaled_mm_block. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "scaled_mm_block": {
        "summary": "Product of 8-bit codes with one scale per 1×128 of a and per 128×128 of b.",
        "formula": "out = Σ over blocks of 128 of K of (a_scale · b_scale) · (a · b) + bias",
        "shapes": (
            "a [*M, K], b [K, N], a_scale [*M, ceil(K / 128)], b_scale [ceil(K / 128), ceil(N / "
            "128)], bias [N] -> out [*M, N]; any strides of matrices: b = weight.T and b_scale = "
            "scale.T of quantize(weight, 'block128'), a_scale row-major or column-major. N and K "
            "need not be multiples of 128. Leading dimensions of a are rows; C++ and C need one "
            "common stride, Python copies others."
        ),
        "dtypes": (
            "a is f8e4m3 or i8; b has a's dtype; scales are f32; bias is f32, f16 or bf16; out is "
            "bf16 (none, the default), f16 or f32."
        ),
        "aliasing": "out must not overlap an input; inputs are never written.",
        "numerics": (
            "Each sum of 128 terms (exact for i8) is multiplied by the product of its scales and "
            "accumulated in f32; then the bias is added and the result rounded once. NaN "
            "propagates; an infinite scale turns a sum of 0 into NaN. GPUs and CPUs add in "
            "different orders."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "DeepSeek-AI, DeepSeek-V3 Technical Report, 2024.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "a": "codes of the left factor",
    "b": "codes of the right factor; weight.T of a linear layer, without a copy",
    "a_scale": "factor per 128 codes of a row of a",
    "b_scale": "factor per 128×128 codes of b",
    "bias": "added to every row of the product, in the product's units",
    "out_dtype": "dtype of the result; bf16 if not given",
}
