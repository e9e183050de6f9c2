"""Docstring pieces of apply_rotary_pos_emb. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "apply_rotary_pos_emb": {
        "summary": "Rotates query and key heads by tables with a row for each token.",
        "formula": (
            "out_l = x_l · cos_l − x_h · sin_l, out_h = x_h · cos_h + x_l · sin_h of pairs (l, h): "
            "(i, i + Dh) for neox, (2i, 2i + 1) for interleaved, and for interleaved_to_half "
            "(2i, 2i + 1) of x, (i, i + Dh) of out; in all, cos_l and sin_l are a table's first "
            "half, cos_h and sin_h its second"
        ),
        "shapes": (
            "q [*T, H, 2Dh], k [*T, Hkv, 2Dh], cos and sin [*T, 2Dh] -> q_out and k_out, shaped "
            "as q and k. Any leading dimensions, any strides: slices of a fused projection "
            "are taken as they are. In Python tables may also be [S, 2Dh] of a batch, either with "
            "a 1 before 2Dh, or of Dh columns for both halves, and q_embed and k_embed name the "
            "results' places."
        ),
        "dtypes": (
            "q f32, f16 or bf16, k q's dtype; cos q's dtype or f32, sin cos's. Results have q's "
            "dtype."
        ),
        "aliasing": (
            "apply_rotary_pos_emb_(q, k, …) or out=(q, k) writes over q and k; other overlaps are "
            "refused."
        ),
        "numerics": (
            "In f32, one rounding, at the store; cast_before_sum=True rounds both products to q's "
            "dtype before they are added (Hugging Face's, bit for bit with tables of that dtype). "
            "The same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError (an odd head dimension), UnsupportedDtypeError, DeviceError, "
            "ArgumentError; nothing is written then."
        ),
        "source": "Su et al., RoFormer, 2021; tables as in Hugging Face's Llama.",
    },
}

# Argument -> what it is, in which unit; others as in ops/rope/rope/rope.py.
ARGUMENTS: dict[str, str] = {
    "cos": "cosines of each token's angles, for both channels of all pairs",
    "sin": "their sines, laid out alike",
    "cast_before_sum": "round both products to q's dtype before they are added",
}
