"""Docstring pieces of gelu_tanh_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "gelu_tanh_backward": {
        "summary": "The gradient of gelu_tanh in x.",
        "formula": (
            "z = √(2/π) · (x + 0.044715 x³); t = tanh(z); dx = dy · ½ · (1 + t + x · (1 − t²) · z′)"
        ),
        "shapes": "dy [*T, F], x [*T, F] -> dx [*T, F]; any leading dimensions, any strides.",
        "dtypes": "dy f32, f16 or bf16; x and dx dy's dtype.",
        "aliasing": "The result shares no memory with dy or x: any overlap is refused.",
        "numerics": (
            "In f32, one rounding, at the store. Inside deterministic(), the same bits in any "
            "batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "The derivative of gelu_tanh; no paper's kernel.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "the gradient that arrives at gelu_tanh's y",
    "x": "what gelu_tanh was given",
}
