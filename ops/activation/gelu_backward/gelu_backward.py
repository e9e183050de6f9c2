"""Docstring pieces of gelu_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "gelu_backward": {
        "summary": "Gradient of gelu with respect to x.",
        "formula": "p = ½ · (1 + erf(x / √2)); dx = dy · (p + x · e^(−x²/2) / √(2π))",
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
        "source": "Derivative of gelu; not from a paper.",
    },
}

HINTS: dict[str, str] = {"approximate": 'gelu_tanh_backward is that of approximate="tanh"'}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "gradient with respect to gelu's y",
    "x": "x as passed to gelu",
}
