"""Docstring pieces of fused_rotary_emb. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "fused_rotary_emb": {
        "summary": "Rotates query and key heads by angles made of positions and frequencies.",
        "formula": (
            "angle = position_ids / scaling_factor · inv_freq; out_l = x_l · cos(angle) − x_h · "
            "sin(angle), out_h = x_h · cos(angle) + x_l · sin(angle) of pairs (l, h): (i, i + Dh) "
            "for neox, (2i, 2i + 1) for interleaved, and for interleaved_to_half (2i, 2i + 1) of "
            "x, (i, i + Dh) of out"
        ),
        "shapes": (
            "q [*T, H, 2Dh], k [*T, Hkv, 2Dh], position_ids [*T], inv_freq [Dh] -> q_out and "
            "k_out, shaped as q and k. Any leading dimensions, any strides. In Python position_ids "
            "may be [1, S] of a batch, and out_q and out_k name the results' places."
        ),
        "dtypes": (
            "q f32, f16 or bf16, k q's dtype; inv_freq q's dtype or f32; position_ids i32 or i64. "
            "Results have q's dtype."
        ),
        "aliasing": (
            "fused_rotary_emb_(q, k, …) or out=(q, k) writes over q and k; other overlaps are "
            "refused."
        ),
        "numerics": (
            "Angles, cosines and sines in f32, one rounding, at the store. The angle is rounded "
            "once, by |angle| · 2^-24 at most (three times where scaling_factor is not 1): 0.002 "
            "at position 32767 and frequency 1."
        ),
        "errors": (
            "ShapeMismatchError (an odd head dimension), UnsupportedDtypeError, DeviceError, "
            "ArgumentError (scaling_factor outside 1e-6 … 1e6); nothing is written then."
        ),
        "source": "Su et al., RoFormer, 2021; the call as in DLBlas.",
    },
}

# Argument -> what it is, in which unit; others as in ops/rope/rope/rope.py.
ARGUMENTS: dict[str, str] = {
    "position_ids": "each token's position; a negative one turns the other way",
    "inv_freq": "the angle of each pair at position 1, in radians",
    "scaling_factor": "what positions are divided by: 1e-6 … 1e6",
}
