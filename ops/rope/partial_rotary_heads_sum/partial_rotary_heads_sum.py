"""Docstring pieces of partial_rotary_heads_sum. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "partial_rotary_heads_sum": {
        "summary": "Gradient of partial_rotary_heads with respect to k_pe.",
        "formula": (
            "s = Σ_H dk_pe; dx_2i = s_l · cos_l + s_h · sin_h; dx_2i+1 = s_h · cos_h − s_l · sin_l"
        ),
        "shapes": (
            "dk_pe [*T, H, 2Dh], the last channels of the keys' gradient, cos and sin [*T, 2Dh] "
            "or [*T, Dh], for both channels of a pair -> dx [*T, 2Dh]. Any leading dimensions, any "
            "strides."
        ),
        "dtypes": (
            "dk_pe is f32, f16 or bf16; dx has its dtype; cos has its dtype or f32, sin has cos's "
            "dtype."
        ),
        "aliasing": "Results share no memory with inputs: any overlap is refused.",
        "numerics": (
            "Adds the heads in f32, from the first to the last, and rounds once, at the store. "
            "Results have the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "Derivative of partial_rotary_heads.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dk_pe": "gradient with respect to k_out's last channels",
    "dx": "gradient with respect to k_pe",
}
