"""Docstring pieces of add_layer_norm. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "add_layer_norm": {
        "summary": "Adds a residual, keeps the sum, and layer-normalises it.",
        "formula": (
            "h = round(x + residual); residual_out = h; "
            "y = (h − mean_C(h)) · rsqrt(var_C(h) + eps) · weight + bias"
        ),
        "shapes": (
            "x, residual [*T, C], weight, bias [C] -> (y, residual_out) [*T, C]; any leading "
            "dimensions, any strides."
        ),
        "dtypes": (
            "x is f32, f16 or bf16; residual and results have x's dtype; weight and bias each have "
            "x's dtype or f32."
        ),
        "aliasing": (
            "add_layer_norm_(x, residual, ...) writes y over x and residual_out over residual; "
            "out=(x, residual) does the same; other overlaps are refused."
        ),
        "numerics": (
            "The sum is computed in f32 and rounded to x's dtype; statistics use the rounded h. "
            "Otherwise as layer_norm. residual_out is exact to the bit."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "Ba, Kiros and Hinton, Layer Normalization, 2016, with a transformer's residual.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "residual": "added to x first, in x's units",
    "bias": "added after the weight, one value per column; 0 if not given",
}

# The gradient of residual_out is added to dx in x's dtype, which rounds once more.
AUTOGRAD: dict[str, dict[str, str | dict[str, str]]] = {
    "add_layer_norm": {
        "backward": "layer_norm_backward",
        "saves": {"x": "residual_out", "weight": "weight"},
        "takes": {"dy": "y"},
        "gives": {"x": "dx", "residual": "dx", "weight": "dweight", "bias": "dbias"},
        "passes": {"x": "residual_out", "residual": "residual_out"},
    },
}
