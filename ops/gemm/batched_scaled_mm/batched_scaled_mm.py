"""Docstring pieces of batched_scaled_mm. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "batched_scaled_mm": {
        "summary": "Batched products of 8-bit codes with one scale per side.",
        "formula": "out[b] = (a_scale · b_scale) · (a[b] · b[b]) + bias",
        "shapes": (
            "a [B, M, K], b [B, K, N] of any strides (FlashInfer's column-major b is a view with K "
            "contiguous), a_scale [] or [1], b_scale likewise, bias [N], one for all -> out "
            "[B, M, N]. dlblas.bmm_fp8 takes any leading dimensions, and scales as numbers."
        ),
        "dtypes": (
            "a is f8e4m3 or i8; b has a's dtype; scales are f32; bias is f32, f16 or bf16; out is "
            "bf16 (none, the default), f16 or f32."
        ),
        "aliasing": "out must not overlap an input; inputs are never written.",
        "numerics": (
            "As scaled_mm_channel on each matrix: f8 sums are f32, i8 sums exact for K up to "
            "131071; the scales are multiplied with each other, then with the sum, in f32; then "
            "the bias is added and the result rounded once."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "FlashInfer's bmm_fp8.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "a": "codes of the left factors",
    "b": "codes of the right factors",
    "a_scale": "one factor for all of a",
    "b_scale": "one factor for all of b",
    "bias": "added to every row of the product, in the product's units",
    "out_dtype": "dtype of the result; bf16 if not given",
}
