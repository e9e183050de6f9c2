"""Docstring pieces of partial_rotary_heads_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "partial_rotary_heads_backward": {
        "summary": "Gradients of partial_rotary_heads with respect to q and kv.",
        "formula": (
            "dx_2i = dy_l · cos_l + dy_h · sin_h, dx_2i+1 = dy_h · cos_h − dy_l · sin_l of the "
            "last 2Dh channels of dq_out; dq = dq_out's first Dn ‖ dx; dkv = dk_out's first Dn ‖ "
            "dv_out's first Dv"
        ),
        "shapes": (
            "dq_out, dk_out, dv_out [*T, H, Dn + 2Dh], cos and sin [*T, 2Dh] or [*T, Dh], for "
            "both channels of a pair -> dq [*T, H, Dn + 2Dh], dkv [*T, H, Dn + Dv]. Any leading "
            "dimensions, any strides."
        ),
        "dtypes": (
            "dq_out is f32, f16 or bf16; dk_out, dv_out and results have its dtype; cos has its "
            "dtype or f32, sin has cos's dtype."
        ),
        "aliasing": "Results share no memory with inputs: any overlap is refused.",
        "numerics": (
            "Computes in f32 and rounds once, at the store; channels that are not rotated keep "
            "their bits. Results have the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError (Dv above Dn + 2Dh), UnsupportedDtypeError, DeviceError, "
            "ArgumentError. On error nothing is written."
        ),
        "source": "Derivative of partial_rotary_heads.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dq_out": "gradient with respect to q_out",
    "dk_out": "gradient with respect to k_out",
    "dv_out": "gradient with respect to v_out",
    "Dv": "channels per head of values",
    "Dh": "rotated pairs per head",
}
