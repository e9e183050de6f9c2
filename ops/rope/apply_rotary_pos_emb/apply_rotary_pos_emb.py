"""Docstring pieces of apply_rotary_pos_emb. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "apply_rotary_pos_emb": {
        "summary": "Rotates query and key heads by tables with one row per token.",
        "formula": (
            "out_l = x_l · cos_l − x_h · sin_l, out_h = x_h · cos_h + x_l · sin_h of pairs (l, h): "
            "(i, i + Dh) for neox, (2i, 2i + 1) for interleaved, and for interleaved_to_half "
            "(2i, 2i + 1) of x, (i, i + Dh) of out; in all, cos_l and sin_l are a table's first "
            "half, cos_h and sin_h its second"
        ),
        "shapes": (
            "q [*T, H, 2Dh], k [*T, Hkv, 2Dh], cos and sin [*T, 2Dh] or [*T, Dh], for both "
            "channels of a pair -> q_out and k_out, shaped as q and k. Any leading dimensions, any "
            "strides: slices of a fused projection need no copy. In Python, tables may also be [S, "
            "·] for a whole batch, either with a 1 before the columns; q_embed and k_embed name "
            "the destinations of the results."
        ),
        "dtypes": (
            "q is f32, f16 or bf16, k has q's dtype; cos has q's dtype or f32, sin has cos's "
            "dtype. Results have q's dtype."
        ),
        "aliasing": (
            "apply_rotary_pos_emb_(q, k, …) or out=(q, k) writes over q and k; other overlaps are "
            "refused."
        ),
        "numerics": (
            "Computes in f32 and rounds once, at the store; cast_before_sum=True rounds both "
            "products to q's dtype before adding them (as Hugging Face does, bit for bit with "
            "tables of that dtype). Results have the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError (an odd head dimension), UnsupportedDtypeError, DeviceError, "
            "ArgumentError. On error nothing is written."
        ),
        "source": "Su et al., RoFormer, 2021; tables as in Hugging Face's Llama.",
    },
}

# Argument -> what it is, in which unit; others as in ops/rope/rope/rope.py.
ARGUMENTS: dict[str, str] = {
    "cos": "cosines of each token's angles, for both channels of every pair",
    "sin": "sines of the same angles, in the same layout",
    "cast_before_sum": "if true, round both products to q's dtype before adding them",
}

# Of all rotations without a norm: the inverse rotation, ../inverse.py. What it reads has no
# gradient; q and k are not kept.
AUTOGRAD: dict[str, dict[str, str | tuple[str, ...]]] = {
    op: {"formula": "rope_inverse", "second": "formula", "reads": reads}
    for op, reads in {
        "apply_rotary_pos_emb": ("cos", "sin"),
        "fused_rotary_emb": ("position_ids", "inv_freq"),
        "mrope_heads": ("time", "height", "width", "cos_sin_cache"),
        "rope": ("positions", "cos_sin_cache"),
    }.items()
}
