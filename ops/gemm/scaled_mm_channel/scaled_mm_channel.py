"""Docstring pieces of scaled_mm_channel. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "scaled_mm_channel": {
        "summary": "Product of 8-bit codes with one scale per row and per column, or one for all.",
        "formula": "out = (a_scale · b_scale) · (a · b) + bias",
        "shapes": (
            "a [*M, K], b [K, N] of any strides (b = weight.T is the layout of a linear layer), "
            "a_scale [*M, 1] (one for all: expanded, with stride 0), b_scale [N] or [1], bias [N] "
            "-> out [*M, N]; leading dimensions of a are rows; C++ and C need one common stride, "
            "Python copies others. dlblas.scaled_mm takes scales in the shapes that quantize "
            "returns."
        ),
        "dtypes": (
            "a is f8e4m3 or i8; b has a's dtype; scales are f32; bias is f32, f16 or bf16; out is "
            "bf16 (none, the default), f16 or f32."
        ),
        "aliasing": "out must not overlap an input; inputs are never written.",
        "numerics": (
            "i8: sums are exact for K up to 131071; beyond that, exact sums of 128 terms are added "
            "in f32. f8: sums are f32; Hopper's f8 tensor cores sum 128 terms at a time, and these "
            "sums are added in f32. The scales are multiplied with each other, then with the sum, "
            "in f32; then the bias is added and the result rounded once. NaN propagates; an "
            "infinite scale turns a sum of 0 into NaN. GPUs and CPUs add in different orders."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "Micikevicius et al., FP8 Formats for Deep Learning, 2022.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "a": "codes of the left factor",
    "b": "codes of the right factor; weight.T of a linear layer, without a copy",
    "a_scale": "factor per row of a, or one for all",
    "b_scale": "factor per column of b, or one for all",
    "bias": "added to every row of the product, in the product's units",
    "out_dtype": "dtype of the result; bf16 if not given",
}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`scaled_mm`: `scaled_mm_channel`, `scaled_mm_block`; `bmm_fp8`: `batched_scaled_mm`; "
        "`fp8_gemm`, `int8_scaled_mm`",
        "`(a_scale · b_scale) · (a · b) + bias` of f8 or i8 codes: one scale for all, per row and "
        "column, or per 1×128 and 128×128 block",
        "AMX, AVX-512 (i8: VNNI), AVX2, baseline; oneDNN (i8)",
        "8-bit WGMMA (Hopper); cuBLASLt; mma.sync in f16 (sm_80 and later), any layout",
    ),
]
