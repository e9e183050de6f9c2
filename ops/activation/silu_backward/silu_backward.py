"""Docstring pieces of silu_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "silu_backward": {
        "summary": "The gradient of silu in x.",
        "formula": "s = 1 / (1 + e^−x); dx = dy · s · (1 + x · (1 − s))",
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
        "source": "The derivative of silu; no paper's kernel.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "the gradient that arrives at silu's y",
    "x": "what silu was given",
}
