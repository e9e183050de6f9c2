"""Docstring pieces of norm_gated_linear. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "norm_gated_linear": {
        "summary": "Root-mean-square normalisation, then two linear layers, one gating the other.",
        "formula": ("y = act(x̂ · w_gateᵀ) ⊙ (x̂ · w_upᵀ), x̂ = x · rsqrt(mean_K(x²) + eps) · rms_w"),
        "shapes": (
            "x [*T, K], rms_w [K], w_gate [F, K], w_up [F, K] -> y [*T, F]; any strides of "
            "matrices. Leading dimensions of x are rows; C++ and C need one common stride, Python "
            "copies others."
        ),
        "dtypes": (
            "x is f32, f16 or bf16; rms_w has x's dtype or f32; both weights and y have x's dtype."
        ),
        "aliasing": "y must not overlap an input; inputs are never written.",
        "numerics": (
            "The norm and the sums are f32; x̂, or an equivalent intermediate, is rounded to x's "
            "dtype for the products; activation and gating act on the f32 sums, and y is rounded "
            "once, at the store. activation: silu, gelu (erf), gelu_tanh, relu."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "Shazeer, GLU Variants Improve Transformer, 2020.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "rms_w": "weight of the norm, one factor per column",
    "w_gate": "weight whose product goes through the activation",
    "w_up": "weight whose product is gated",
    "eps": "added to the mean square, in units of x squared",
    "activation": "activation of the gate: silu, gelu (erf), gelu_tanh or relu",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "K": "normalised width of x, and terms of each dot product",
    "F": "columns of the result: the feed-forward width",
}

# Its gradient, built from the gradients of its parts: gradient.py.
AUTOGRAD: dict[str, dict[str, str]] = {"norm_gated_linear": {"formula": "gradient"}}
