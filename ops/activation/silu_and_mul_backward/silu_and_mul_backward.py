"""Docstring pieces of silu_and_mul_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "silu_and_mul_backward": {
        "summary": "Gradient of silu_and_mul with respect to both halves of x.",
        "formula": "s = 1 / (1 + e^−g); dx = [dy · u · s · (1 + g · (1 − s)), dy · g · s]",
        "shapes": "dy [*T, F], x [*T, 2F] = [g | u] -> dx [*T, 2F]; any strides.",
        "dtypes": "dy is f32, f16 or bf16; x and dx have dy's dtype.",
        "aliasing": "The result shares no memory with dy or x: any overlap is refused.",
        "numerics": (
            "Computes in f32 and rounds once, at the store. Inside deterministic(), results have "
            "the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError (an odd last dimension of x), UnsupportedDtypeError, DeviceError, "
            "ArgumentError. On error nothing is written."
        ),
        "source": "Derivative of silu_and_mul; not from a paper.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "gradient with respect to silu_and_mul's y",
    "x": "x as passed to silu_and_mul: gate and up projections, concatenated",
}
