"""Docstring pieces of log_softmax_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "log_softmax_backward": {
        "summary": "The gradient of log_softmax in x, from what log_softmax returned.",
        "formula": "dx = dy − exp(y) · sum_C(dy)",
        "shapes": "dy [*T, C], y [*T, C] -> dx [*T, C]; any leading dimensions, any strides.",
        "dtypes": "dy f32, f16 or bf16; y and dx dy's dtype.",
        "aliasing": "The result shares no memory with dy or y: any overlap is refused.",
        "numerics": (
            "In f32, one rounding, at the store. Rows whose sums f32 cannot hold are undefined. "
            "Inside deterministic(), the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "The derivative of log_softmax; no paper's kernel.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "the gradient that arrives at log_softmax's y",
    "y": "what log_softmax returned",
}
