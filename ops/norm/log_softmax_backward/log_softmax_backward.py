"""Docstring pieces of log_softmax_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "log_softmax_backward": {
        "summary": "Gradient of log_softmax with respect to x, from log_softmax's result.",
        "formula": "dx = dy − exp(y) · sum_C(dy)",
        "shapes": "dy [*T, C], y [*T, C] -> dx [*T, C]; any leading dimensions, any strides.",
        "dtypes": "dy is f32, f16 or bf16; y and dx have dy's dtype.",
        "aliasing": "The result shares no memory with dy or y: any overlap is refused.",
        "numerics": (
            "Computes in f32 and rounds once, at the store. Rows whose sums f32 cannot hold are "
            "undefined. Inside deterministic(), results have the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "Derivative of log_softmax; not from a paper.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "gradient with respect to log_softmax's y",
    "y": "y as returned by log_softmax",
}
