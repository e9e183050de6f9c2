"""Docstring pieces of partial_rotary_heads. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "partial_rotary_heads": {
        "summary": (
            "Rotates the last channels of latent attention's heads, and assembles its keys and "
            "values."
        ),
        "formula": (
            "y_l = x_2i · cos_l − x_2i+1 · sin_l, y_h = x_2i+1 · cos_h + x_2i · sin_h of the last "
            "2Dh channels x, read as adjacent pairs and written as halves; q_out = q's first Dn ‖ "
            "y(q); k_out = kv's first Dn ‖ y(k_pe), for every head; v_out = kv's last Dv ‖ zeros"
        ),
        "shapes": (
            "q [*T, H, Dn + 2Dh], k_pe [*T, 2Dh], kv [*T, H, Dn + Dv] with Dv ≤ Dn + 2Dh, cos and "
            "sin [*T, 2Dh] or [*T, Dh], for both channels of a pair -> q_out, k_out and v_out [*T, "
            "H, Dn + 2Dh]. Any leading dimensions, any strides: k_out and v_out may be halves of "
            "one tensor [*T, 2, H, ·]."
        ),
        "dtypes": (
            "q is f32, f16 or bf16; k_pe, kv and results have q's dtype; cos has q's dtype or f32, "
            "sin has cos's dtype."
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
        "source": "DeepSeek-V2, 2024; the call is as in DLBlas.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "q": "query heads",
    "k_pe": "rotary channels of the keys, shared by all heads",
    "kv": "channels of the keys that are not rotated, then values",
    "cos": "cosines of each token's angles, one per rotated channel",
    "sin": "sines of the same angles, in the same layout",
}
