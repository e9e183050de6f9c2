"""Docstring pieces of silu_mul_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "silu_mul_backward": {
        "summary": "The gradient of silu_mul in gate and up.",
        "formula": (
            "s = 1 / (1 + e^−gate); dgate = dy · up · s · (1 + gate · (1 − s)); dup = dy · gate · s"
        ),
        "shapes": "dy, gate and up [*T, F] -> dgate and dup [*T, F]; any strides.",
        "dtypes": "dy f32, f16 or bf16; gate, up, dgate and dup dy's dtype.",
        "aliasing": "The results share no memory with dy, gate or up: any overlap is refused.",
        "numerics": (
            "In f32, one rounding of each, at the store; cast_before_mul=True rounds dy · up and "
            "silu(gate) to dy's dtype before they are multiplied (eager PyTorch's). Inside "
            "deterministic(), the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "The derivative of silu_mul; no paper's kernel.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "the gradient that arrives at silu_mul's y",
    "gate": "what the SiLU was taken of",
    "up": "what was gated",
    "cast_before_mul": "what silu_mul was given",
}
