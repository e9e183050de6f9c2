"""Docstring pieces of gelu_and_mul_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "gelu_and_mul_backward": {
        "summary": "Gradient of gelu_and_mul with respect to both halves of x.",
        "formula": (
            "p = ½ · (1 + erf(g / √2)); dx = [dy · u · (p + g · e^(−g²/2) / √(2π)), dy · g · p]"
        ),
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
        "source": "Derivative of gelu_and_mul; not from a paper.",
    },
}

HINTS: dict[str, str] = {"approximate": 'gelu_tanh_and_mul_backward is that of approximate="tanh"'}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "gradient with respect to gelu_and_mul's y",
    "x": "x as passed to gelu_and_mul: gate and up projections, concatenated",
}
