"""Docstring pieces of softmax_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "softmax_backward": {
        "summary": "The gradient of softmax in x, from what softmax returned.",
        "formula": "dx = y · (dy − sum_C(dy · y))",
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
        "source": "The derivative of softmax; no paper's kernel.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "the gradient that arrives at softmax's y",
    "y": "what softmax returned",
}
