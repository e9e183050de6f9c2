"""Docstring pieces of scaled_mm_channel. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "scaled_mm_channel": {
        "summary": "Product of 8-bit codes with one scale per row and per column, or one for all.",
        "formula": "out = (a_scale · b_scale) · (a · b) + bias",
        "shapes": (
            "a [*M, K], b [K, N] of any strides (b = weight.T is the layout of a linear layer), "
            "a_scale [*M, 1] (one for all: expanded, of stride 0), b_scale [N] or [1], bias [N] "
            "-> out [*M, N]; leading dimensions of a are rows, at one stride. dlblas.scaled_mm "
            "takes the shapes of quantize."
        ),
        "dtypes": (
            "a f8e4m3 or i8; b a's dtype; scales f32; bias f32, f16 or bf16; "
            "out bf16 (none, the default), f16 or f32."
        ),
        "aliasing": "out overlaps no input; inputs are never written.",
        "numerics": (
            "i8: sums are exact (K up to 131071, else of 128 terms, added up in f32). f8: f32 "
            "sums, on Hopper's f8 tensor cores those of 128 terms, which are added up in f32. "
            "Scales multiply each other, then the sum, in f32; bias; one rounding. NaN "
            "propagates; an infinite scale makes NaN of a sum of 0. GPUs and CPUs add up in "
            "other orders."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "Micikevicius et al., FP8 Formats for Deep Learning, 2022.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "a": "codes of the left factor",
    "b": "codes of the right factor; weight.T of a linear layer, without a copy",
    "a_scale": "what a row's codes are multiplied with, or all codes",
    "b_scale": "what a column's codes are multiplied with, or all codes",
    "bias": "added to every row of the product, in the product's unit",
    "out_dtype": "dtype of the result; none: bf16",
}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`scaled_mm`: `scaled_mm_channel`, `scaled_mm_block`; `fp8_gemm`, `bmm_fp8`, "
        "`int8_scaled_mm`",
        "`(a_scale · b_scale) · (a · b) + bias` of f8 or i8 codes: scales of all, of rows and "
        "columns, of 1×128 by 128×128",
        "AMX, AVX-512 (i8: VNNI), AVX2, baseline",
        "8-bit WGMMA (Hopper); cuBLASLt; mma.sync in f16 (sm_80 and later), any layout",
    ),
]
