"""Docstring pieces of silu_mul_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "silu_mul_backward": {
        "summary": "Gradient of silu_mul with respect to gate and up.",
        "formula": (
            "s = 1 / (1 + e^−gate); dgate = dy · up · s · (1 + gate · (1 − s)); dup = dy · gate · s"
        ),
        "shapes": "dy, gate and up [*T, F] -> dgate and dup [*T, F]; any strides.",
        "dtypes": "dy is f32, f16 or bf16; gate, up, dgate and dup have dy's dtype.",
        "aliasing": "The results share no memory with dy, gate or up: any overlap is refused.",
        "numerics": (
            "Computes in f32 and rounds each result once, at the store; cast_before_mul=True "
            "rounds dy · up and silu(gate) to dy's dtype before multiplying them, as eager PyTorch "
            "does. Inside deterministic(), results have the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "Derivative of silu_mul; not from a paper.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "gradient with respect to silu_mul's y",
    "gate": "input of the SiLU",
    "up": "values that the SiLU gates",
    "cast_before_mul": "cast_before_mul as passed to silu_mul",
}
