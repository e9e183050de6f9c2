"""Docstring pieces of gated_linear. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "gated_linear": {
        "summary": (
            "Two linear layers of one input, one gating the other, in one pass over the input."
        ),
        "formula": "y = act(x · w_gateᵀ) ⊙ (x · w_upᵀ)",
        "shapes": (
            "x [*T, K], w_gate [F, K], w_up [F, K] -> y [*T, F]; any strides of matrices. With "
            "more dimensions, the leading ones of x are rows; C++ and C need one common stride, "
            "Python copies others."
        ),
        "dtypes": "x is f32, f16 or bf16; both weights and y have x's dtype.",
        "aliasing": "y must not overlap an input; inputs are never written.",
        "numerics": (
            "Products and sums are f32; activation and gating act on the f32 sums, with one "
            "rounding, at the store. activation: silu, gelu (erf), gelu_tanh, relu. NaN and Inf "
            "propagate, through relu too. The cpu_* implementations give the same bits on any "
            "number of threads; inside deterministic() all implementations do in any batch."
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
    "w_gate": "weight whose product goes through the activation",
    "w_up": "weight whose product is gated",
    "activation": "activation of the gate: silu, gelu (erf), gelu_tanh or relu",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "K": "terms of each dot product: the width of x",
    "F": "columns of the result: the feed-forward width",
}

# Its gradient, built from matmul: gradient.py.
AUTOGRAD = {"gated_linear": {"formula": "gradient", "second": "formula"}}
