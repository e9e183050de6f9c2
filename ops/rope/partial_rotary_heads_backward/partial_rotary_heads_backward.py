"""Docstring pieces of partial_rotary_heads_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "partial_rotary_heads_backward": {
        "summary": "The gradients of partial_rotary_heads in q and kv.",
        "formula": (
            "dx_2i = dy_l · cos_l + dy_h · sin_h, dx_2i+1 = dy_h · cos_h − dy_l · sin_l of the "
            "last 2Dh channels of dq_out; dq = dq_out's first Dn ‖ dx; dkv = dk_out's first Dn ‖ "
            "dv_out's first Dv"
        ),
        "shapes": (
            "dq_out, dk_out, dv_out [*T, H, Dn + 2Dh], cos and sin [*T, 2Dh] -> dq [*T, H, Dn + "
            "2Dh], dkv [*T, H, Dn + Dv]. Any leading dimensions, any strides."
        ),
        "dtypes": (
            "dq_out f32, f16 or bf16; dk_out, dv_out and results its dtype; cos its dtype or f32, "
            "sin cos's."
        ),
        "aliasing": "Results share no memory with inputs: any overlap is refused.",
        "numerics": (
            "In f32, one rounding, at the store; what is not turned keeps its bits. The same bits "
            "in any batch."
        ),
        "errors": (
            "ShapeMismatchError (Dv above Dn + 2Dh), UnsupportedDtypeError, DeviceError, "
            "ArgumentError; nothing is written then."
        ),
        "source": "The derivative of partial_rotary_heads.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dq_out": "the gradient that arrives at q_out",
    "dk_out": "the gradient that arrives at k_out",
    "dv_out": "the gradient that arrives at v_out",
    "Dv": "channels of values",
}
