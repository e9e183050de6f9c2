"""Docstring pieces of silu. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "silu": {
        "summary": "SiLU, x · sigmoid(x), of each element.",
        "formula": "y = x / (1 + e^−x)",
        "shapes": "x [*T, F] -> y [*T, F]; any leading dimensions, any strides.",
        "dtypes": "x is f32, f16 or bf16; y has x's dtype.",
        "aliasing": "silu_(x) or out=x writes y over x; other overlaps are refused.",
        "numerics": (
            "Computes in f32 and rounds once, at the store. Inside deterministic(), results have "
            "the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "Elfwing, Uchibe and Doya, Sigmoid-Weighted Linear Units, 2018.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "x": "rows of any length; elements are independent",
}

# Its gradient; ops/norm/rms_norm/rms_norm.py explains the four keys.
AUTOGRAD: dict[str, dict[str, str | dict[str, str]]] = {
    "silu": {
        "backward": "silu_backward",
        "saves": {"x": "x"},
        "takes": {"dy": "y"},
        "gives": {"x": "dx"},
    },
}
