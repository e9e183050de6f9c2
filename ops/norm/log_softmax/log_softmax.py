"""Docstring pieces of log_softmax. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "log_softmax": {
        "summary": "Logarithm of softmax over the last dimension.",
        "formula": "y = x − max_C(x) − log sum_C exp(x − max_C(x))",
        "shapes": (
            "x [*T, C] -> y [*T, C]; any leading dimensions, any strides. In Python, "
            "log_softmax(x, dim=d) works on another dimension through a transposed view; y has x's "
            "layout."
        ),
        "dtypes": "x is f32, f16 or bf16; y has x's dtype.",
        "aliasing": "log_softmax_(x) or out=x writes y over x; other overlaps are refused.",
        "numerics": (
            "Computes in f32, subtracts the row's maximum first, and rounds once, at the store. A "
            "row with NaN or inf, or of −inf alone, is NaN; −inf next to finite values stays −inf. "
            "Inside deterministic(), results have the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "Milakov and Gimelshein, Online normalizer calculation for softmax, 2018.",
    },
}

OVER_DIM = "C"  # calls from Python may name another dimension in its place: dim=1

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {"x": "rows of logits"}

# The gradient; ops/norm/rms_norm/rms_norm.py explains the four keys.
AUTOGRAD: dict[str, dict[str, str | dict[str, str]]] = {
    "log_softmax": {
        "backward": "log_softmax_backward",
        "saves": {"y": "y"},
        "takes": {"dy": "y"},
        "gives": {"x": "dx"},
    },
}
