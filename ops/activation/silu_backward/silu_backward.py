"""Docstring pieces of silu_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "silu_backward": {
        "summary": "Gradient of silu with respect to x.",
        "formula": "s = 1 / (1 + e^−x); dx = dy · s · (1 + x · (1 − s))",
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
        "source": "Derivative of silu; not from a paper.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "gradient with respect to silu's y",
    "x": "x as passed to silu",
}
