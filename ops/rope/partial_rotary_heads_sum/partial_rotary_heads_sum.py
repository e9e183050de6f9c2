"""Docstring pieces of partial_rotary_heads_sum. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "partial_rotary_heads_sum": {
        "summary": "The gradient of partial_rotary_heads in k_pe.",
        "formula": (
            "s = Σ_H dk_pe; dx_2i = s_l · cos_l + s_h · sin_h; dx_2i+1 = s_h · cos_h − s_l · sin_l"
        ),
        "shapes": (
            "dk_pe [*T, H, 2Dh], the last channels of the keys' gradient, cos and sin [*T, 2Dh] -> "
            "dx [*T, 2Dh]. Any leading dimensions, any strides."
        ),
        "dtypes": "dk_pe f32, f16 or bf16; dx its dtype; cos its dtype or f32, sin cos's.",
        "aliasing": "Results share no memory with inputs: any overlap is refused.",
        "numerics": (
            "In f32, heads added up from the first to the last; one rounding, at the store. The "
            "same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; nothing is "
            "written then."
        ),
        "source": "The derivative of partial_rotary_heads.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dk_pe": "the gradient that arrives at k_out's last channels",
    "dx": "the gradient of k_pe",
}
