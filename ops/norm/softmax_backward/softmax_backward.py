"""Docstring pieces of softmax_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "softmax_backward": {
        "summary": "Gradient of softmax with respect to x, from softmax's result.",
        "formula": "dx = y · (dy − sum_C(dy · y))",
        "shapes": "dy [*T, C], y [*T, C] -> dx [*T, C]; any leading dimensions, any strides.",
        "dtypes": "dy is f32, f16 or bf16; y and dx have dy's dtype.",
        "aliasing": "The result shares no memory with dy or y: any overlap is refused.",
        "numerics": (
            "Computes in f32 and rounds once, at the store. Rows whose sums f32 cannot hold are "
            "undefined. Inside deterministic(), results have the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "Derivative of softmax; not from a paper.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "gradient with respect to softmax's y",
    "y": "y as returned by softmax",
}
