"""Docstring pieces of gelu_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "gelu_backward": {
        "summary": "The gradient of gelu in x.",
        "formula": "p = ½ · (1 + erf(x / √2)); dx = dy · (p + x · e^(−x²/2) / √(2π))",
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
        "source": "The derivative of gelu; no paper's kernel.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "the gradient that arrives at gelu's y",
    "x": "what gelu was given",
}
