"""Docstring pieces of gelu_tanh_and_mul_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "gelu_tanh_and_mul_backward": {
        "summary": "Gradient of gelu_tanh_and_mul with respect to both halves of x.",
        "formula": "dx = [dy · u · gelu_tanh′(g), dy · gelu_tanh(g)]",
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
        "source": "Derivative of gelu_tanh_and_mul; not from a paper.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "gradient with respect to gelu_tanh_and_mul's y",
    "x": "x as passed to gelu_tanh_and_mul: gate and up projections, concatenated",
}
