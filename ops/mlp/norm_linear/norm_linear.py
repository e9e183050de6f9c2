"""Docstring pieces of norm_linear. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "norm_linear": {
        "summary": "Root-mean-square normalisation, then a linear layer.",
        "formula": "y = x̂ · weightᵀ, x̂ = x · rsqrt(mean_K(x²) + eps) · rms_w",
        "shapes": (
            "x [*T, K], rms_w [K], weight [N, K] -> y [*T, N]; any strides of matrices. Leading "
            "dimensions of x are rows; C++ and C need one common stride, Python copies others."
        ),
        "dtypes": "x is f32, f16 or bf16; rms_w has x's dtype or f32; weight and y have x's dtype.",
        "aliasing": "y must not overlap an input; inputs are never written.",
        "numerics": (
            "The norm and the sums are f32; x̂, or an equivalent intermediate, is rounded to x's "
            "dtype for the product; y is rounded once, at the store."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "rms_w": "weight of the norm, one factor per column",
    "eps": "added to the mean square, in units of x squared",
    "weight": "weight of the linear layer: one row per column of the result",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "K": "normalised width of x, and terms of each dot product",
    "N": "columns of the result",
}

# Its gradient, built from matmul and rms_norm_backward: gradient.py.
AUTOGRAD: dict[str, dict[str, str]] = {"norm_linear": {"formula": "gradient"}}
