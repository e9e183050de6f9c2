"""Docstring pieces of gelu_and_mul. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "gelu_and_mul": {
        "summary": "Gates the second half of the last dimension by the GELU of the first.",
        "formula": ("y = gelu(x[:F]) · x[F:], gelu(g) = ½ · g · (1 + erf(g / √2))"),
        "shapes": "x [*T, 2F] -> y [*T, F]; any leading dimensions, any strides.",
        "dtypes": "x is f32, f16 or bf16; y has x's dtype.",
        "aliasing": "The result shares no memory with x: any overlap is refused.",
        "numerics": (
            "Computes both halves in f32 and rounds once, at the store; the gate is accurate to a "
            "few roundings of its value, for negative inputs too. Inside deterministic(), results "
            "have the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError (an odd last dimension), UnsupportedDtypeError, DeviceError, "
            "ArgumentError. On error nothing is written."
        ),
        "source": "Shazeer, GLU Variants Improve Transformer, 2020; Hendrycks and Gimpel, 2016.",
    },
}

HINTS: dict[str, str] = {"approximate": 'gelu_tanh_and_mul is that of approximate="tanh"'}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "x": "gate and up projections, concatenated; the first half is the gate",
}

# Its gradient; ops/norm/rms_norm/rms_norm.py explains the four keys.
AUTOGRAD: dict[str, dict[str, str | dict[str, str]]] = {
    "gelu_and_mul": {
        "backward": "gelu_and_mul_backward",
        "saves": {"x": "x"},
        "takes": {"dy": "y"},
        "gives": {"x": "dx"},
    },
}
