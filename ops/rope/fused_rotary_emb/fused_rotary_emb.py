"""Docstring pieces of fused_rotary_emb. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "fused_rotary_emb": {
        "summary": "Rotates query and key heads by angles computed from positions and frequencies.",
        "formula": (
            "angle = position_ids / scaling_factor · inv_freq; out_l = x_l · cos(angle) − x_h · "
            "sin(angle), out_h = x_h · cos(angle) + x_l · sin(angle) of pairs (l, h): (i, i + Dh) "
            "for neox, (2i, 2i + 1) for interleaved, and for interleaved_to_half (2i, 2i + 1) of "
            "x, (i, i + Dh) of out"
        ),
        "shapes": (
            "q [*T, H, 2Dh], k [*T, Hkv, 2Dh], position_ids [*T], inv_freq [Dh] -> q_out and "
            "k_out, shaped as q and k. Any leading dimensions, any strides. In Python, "
            "position_ids may be [1, S] for a whole batch; out_q and out_k name the destinations "
            "of the results."
        ),
        "dtypes": (
            "q is f32, f16 or bf16, k has q's dtype; inv_freq has q's dtype or f32; position_ids "
            "is i32 or i64. Results have q's dtype."
        ),
        "aliasing": (
            "fused_rotary_emb_(q, k, …) or out=(q, k) writes over q and k; other overlaps are "
            "refused."
        ),
        "numerics": (
            "Angles, cosines and sines are f32, with one rounding, at the store. The angle is "
            "rounded once, with an error of at most |angle| · 2^-24 (three times that if "
            "scaling_factor is not 1): 0.002 at position 32767 and frequency 1."
        ),
        "errors": (
            "ShapeMismatchError (an odd head dimension), UnsupportedDtypeError, DeviceError, "
            "ArgumentError (scaling_factor outside 1e-6 … 1e6). On error nothing is written."
        ),
        "source": "Su et al., RoFormer, 2021; the call is as in DLBlas.",
    },
}

# Argument -> what it is, in which unit; others as in ops/rope/rope/rope.py.
ARGUMENTS: dict[str, str] = {
    "position_ids": "position of each token; a negative one rotates the other way",
    "inv_freq": "angle of each pair at position 1, in radians",
    "scaling_factor": "divisor of the positions: 1e-6 … 1e6",
}
