"""Docstring pieces of rms_norm_rope. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "rms_norm_rope": {
        "summary": "Normalises all heads of a token together, then rotates each in neox style.",
        "formula": (
            "n = x · rsqrt(mean(x²) + eps) · weight, the mean over all heads of a token; y_l = n_l "
            "· cos_l − n_h · sin_l, y_h = n_h · cos_l + n_l · sin_l of pairs (i, i + Dh), with the "
            "first halves of cos and sin for both channels"
        ),
        "shapes": (
            "x [*T, H, 2Dh], weight [H, 2Dh], cos and sin [*T, 2Dh], whose first Dh columns are "
            "read, or [*T, Dh] -> y shaped as x. Any leading dimensions, any strides. "
            "fused_rmsnorm_rope takes x [B, S, H·2Dh]."
        ),
        "dtypes": (
            "x is f32, f16 or bf16; weight and cos have x's dtype or f32; sin has cos's dtype, y "
            "has x's."
        ),
        "aliasing": "rms_norm_rope_(x, …) or out=x writes over x; other overlaps are refused.",
        "numerics": (
            "Computes in f32 and rounds once, at the store. Holds for values up to 2^80 with eps ≥ "
            "1e-12; rows whose scaled squares leave f32's range are undefined."
        ),
        "errors": (
            "ShapeMismatchError (an odd head dimension), UnsupportedDtypeError, DeviceError. On "
            "error nothing is written."
        ),
        "source": "Zhang and Sennrich, 2019; Su et al., RoFormer, 2021; as in video transformers.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "x": "heads to normalise and rotate",
    "weight": "factor per channel of each head",
    "cos": "cosines of each token's angles; only the first half of the columns is read",
    "sin": "sines of the same angles, in the same layout",
    "eps": "added to the mean square, in units of x squared",
}

# Written in torch's operators: gradient.py.
AUTOGRAD = {"rms_norm_rope": {"formula": "gradient", "second": "formula"}}
