"""Docstring pieces of norm_linear. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "norm_linear": {
        "summary": "Root-mean-square normalisation, then a linear layer.",
        "formula": "y = x̂ · weightᵀ, x̂ = x · rsqrt(mean_K(x²) + eps) · rms_w",
        "shapes": (
            "x [*T, K], rms_w [K], weight [N, K] -> y [*T, N]; any strides of matrices. Leading "
            "dimensions of x are rows, at one stride."
        ),
        "dtypes": "x f32, f16 or bf16; rms_w x's dtype or f32; weight and y x's dtype.",
        "aliasing": "y overlaps no input; inputs are never written.",
        "numerics": (
            "The norm and the sums in f32; x̂, or what stands for it, is rounded to x's dtype, as "
            "products take it, and y once, at the store."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "rms_w": "gain of the norm",
    "eps": "added to the mean of squares, in its unit",
    "weight": "of the linear layer: one row per column of the result",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "K": "the width that is normalised, and terms of each sum of products",
    "N": "columns of the result",
}

# Its gradient, built from matmul and rms_norm_backward: gradient.py.
AUTOGRAD: dict[str, dict[str, str]] = {"norm_linear": {"formula": "gradient"}}
