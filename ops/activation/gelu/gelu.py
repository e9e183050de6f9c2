"""Docstring pieces of gelu. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "gelu": {
        "summary": "GELU (error function) of each element.",
        "formula": "y = ½ · x · (1 + erf(x / √2))",
        "shapes": "x [*T, F] -> y [*T, F]; any leading dimensions, any strides.",
        "dtypes": "x is f32, f16 or bf16; y has x's dtype.",
        "aliasing": "gelu_(x) or out=x writes y over x; other overlaps are refused.",
        "numerics": (
            "Computes in f32 and rounds once, at the store. Inside deterministic(), results have "
            "the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.",
    },
}

HINTS: dict[str, str] = {"approximate": 'gelu_tanh is that of approximate="tanh"'}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "x": "rows of any length; elements are independent",
}

# Its gradient; ops/norm/rms_norm/rms_norm.py explains the four keys.
AUTOGRAD: dict[str, dict[str, str | dict[str, str]]] = {
    "gelu": {
        "backward": "gelu_backward",
        "saves": {"x": "x"},
        "takes": {"dy": "y"},
        "gives": {"x": "dx"},
    },
}
