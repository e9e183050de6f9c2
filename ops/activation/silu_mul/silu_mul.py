"""Docstring pieces of silu_mul. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "silu_mul": {
        "summary": "Gates one tensor by the SiLU of another.",
        "formula": "y = silu(gate) · up, silu(g) = g / (1 + e^−g)",
        "shapes": "gate and up [*T, F] -> y [*T, F]; any leading dimensions, any strides.",
        "dtypes": "gate is f32, f16 or bf16; up and y have gate's dtype.",
        "aliasing": "The result shares no memory with gate or up: any overlap is refused.",
        "numerics": (
            "Computes in f32 and rounds once, at the store; cast_before_mul=True rounds silu(gate) "
            "to gate's dtype before the product, as eager PyTorch does. Inside deterministic(), "
            "results have the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": (
            "Shazeer, GLU Variants Improve Transformer, 2020; two tensors as in Liger's "
            "LigerSiLUMulFunction."
        ),
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "gate": "input of the SiLU",
    "up": "values that the SiLU gates",
    "cast_before_mul": "if true, round silu(gate) to gate's dtype before the product",
}

# Its gradient; ops/norm/rms_norm/rms_norm.py explains the four keys.
AUTOGRAD: dict[str, dict[str, str | dict[str, str]]] = {
    "silu_mul": {
        "backward": "silu_mul_backward",
        "saves": {"gate": "gate", "up": "up"},
        "takes": {"dy": "y"},
        "gives": {"gate": "dgate", "up": "dup"},
    },
}
