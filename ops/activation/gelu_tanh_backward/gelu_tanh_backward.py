"""Docstring pieces of gelu_tanh_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "gelu_tanh_backward": {
        "summary": "Gradient of gelu_tanh with respect to x.",
        "formula": (
            "z = √(2/π) · (x + 0.044715 x³); t = tanh(z); dx = dy · ½ · (1 + t + x · (1 − t²) · z′)"
        ),
        "shapes": "dy [*T, F], x [*T, F] -> dx [*T, F]; any leading dimensions, any strides.",
        "dtypes": "dy is f32, f16 or bf16; x and dx have dy's dtype.",
        "aliasing": "The result shares no memory with dy or x: any overlap is refused.",
        "numerics": (
            "Computes in f32 and rounds once, at the store. Inside deterministic(), results have "
            "the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "Derivative of gelu_tanh; not from a paper.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "gradient with respect to gelu_tanh's y",
    "x": "x as passed to gelu_tanh",
}
