"""Docstring pieces of gelu_tanh_and_mul_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "gelu_tanh_and_mul_backward": {
        "summary": "The gradient of gelu_tanh_and_mul in both halves of x.",
        "formula": "dx = [dy · u · gelu_tanh′(g), dy · gelu_tanh(g)]",
        "shapes": "dy [*T, F], x [*T, 2F] = [g | u] -> dx [*T, 2F]; any strides.",
        "dtypes": "dy f32, f16 or bf16; x and dx dy's dtype.",
        "aliasing": "The result shares no memory with dy or x: any overlap is refused.",
        "numerics": (
            "In f32, one rounding, at the store. Inside deterministic(), the same bits in any "
            "batch."
        ),
        "errors": (
            "ShapeMismatchError (an odd last dimension of x), UnsupportedDtypeError, DeviceError, "
            "ArgumentError; nothing is written then."
        ),
        "source": "The derivative of gelu_tanh_and_mul; no paper's kernel.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "the gradient that arrives at gelu_tanh_and_mul's y",
    "x": "what gelu_tanh_and_mul was given: gate and up projection side by side",
}
