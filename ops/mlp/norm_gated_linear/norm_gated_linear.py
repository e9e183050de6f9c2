"""Docstring pieces of norm_gated_linear. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "norm_gated_linear": {
        "summary": "Root-mean-square normalisation, then two linear layers, one gating the other.",
        "formula": ("y = act(x̂ · w_gateᵀ) ⊙ (x̂ · w_upᵀ), x̂ = x · rsqrt(mean_K(x²) + eps) · rms_w"),
        "shapes": (
            "x [*T, K], rms_w [K], w_gate [F, K], w_up [F, K] -> y [*T, F]; any strides of "
            "matrices. Leading dimensions of x are rows, at one stride."
        ),
        "dtypes": "x f32, f16 or bf16; rms_w x's dtype or f32; both weights and y x's dtype.",
        "aliasing": "y overlaps no input; inputs are never written.",
        "numerics": (
            "The norm and the sums in f32; x̂, or what stands for it, is rounded to x's dtype, as "
            "products take it; gate and product act on the f32 sums, and y is rounded once, at the "
            "store. activation: silu, gelu (erf), gelu_tanh, relu."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "Shazeer, GLU Variants Improve Transformer, 2020.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "rms_w": "gain of the norm",
    "w_gate": "the weight whose product goes through the activation",
    "w_up": "the weight whose product is gated",
    "eps": "added to the mean of squares, in its unit",
    "activation": "of the gate: silu, gelu (erf), gelu_tanh or relu",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "K": "the width that is normalised, and terms of each sum of products",
    "F": "columns of the result: the feed-forward width",
}

# Its gradient, built from the gradients of its parts: gradient.py.
AUTOGRAD: dict[str, dict[str, str]] = {"norm_gated_linear": {"formula": "gradient"}}
