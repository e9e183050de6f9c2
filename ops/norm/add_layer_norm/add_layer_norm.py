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
            "x f32, f16 or bf16; residual and results x's dtype; weight and bias x's dtype or f32, "
            "each."
        ),
        "aliasing": (
            "add_layer_norm_(x, residual, ...) writes y over x and residual_out over residual; "
            "out=(x, residual) does the same; other overlaps are refused."
        ),
        "numerics": (
            "The sum is made in f32 and rounded to x's dtype; statistics are of the rounded h. "
            "Otherwise as layer_norm. residual_out is exact to the bit."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "Ba, Kiros and Hinton, Layer Normalization, 2016, over a transformer's residual.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "residual": "added to x first, in x's unit",
    "bias": "added last, one value per column; none: 0",
}
