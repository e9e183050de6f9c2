"""Docstring pieces of rope. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "rope": {
        "summary": "Rotates query and key heads by rows of a table, chosen by positions.",
        "formula": (
            "[cos | sin] = cos_sin_cache[positions]; out_l = x_l · cos − x_h · sin, "
            "out_h = x_h · cos + x_l · sin of pairs (l, h): (i, i + Dh) for neox, (2i, 2i + 1) for "
            "interleaved, and for interleaved_to_half (2i, 2i + 1) of x, (i, i + Dh) of out; the "
            "last Dn channels are copied, in place left alone"
        ),
        "shapes": (
            "q [T, H, D], k [T, Hkv, D], positions [T], cos_sin_cache [P, R] with R = 2Dh ≤ D = "
            "2Dh + Dn -> q_out [T, H, D], k_out [T, Hkv, D]. Any strides; slices of a fused "
            "projection run as fast as contiguous tensors, in place too. In Python tokens may have "
            "more leading dimensions, q [B, S, H, ·] with positions [B, S], and rotary_dim=R may "
            "say the table's width, which is refused where it differs."
        ),
        "dtypes": (
            "q f32, f16 or bf16, k q's dtype; cos_sin_cache q's dtype or f32; positions i32 or "
            "i64. Results have q's dtype."
        ),
        "aliasing": "rope_(q, k, …) or out=(q, k) writes over q and k; other overlaps are refused.",
        "numerics": "In f32, one rounding, at the store. The same bits in any batch.",
        "errors": (
            "ShapeMismatchError (R odd or above D), UnsupportedDtypeError, DeviceError, "
            "ArgumentError; nothing is written then. A position of P or more is an ArgumentError "
            "on CPUs; on GPUs it is not checked and reads outside the table. A token with a "
            "negative one is left out, unwritten: in place it keeps its values, and a new result "
            "has there whatever was in its memory."
        ),
        "source": "Su et al., RoFormer, 2021; the cache as in vLLM's rotary_embedding.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "q": "query heads",
    "k": "key heads",
    "positions": "row of cos_sin_cache for each token, from 0 to P − 1",
    "cos_sin_cache": "a row for each position: cosines of its Dh angles, then their sines",
    "style": "which channels are pairs: neox (i, i + Dh), interleaved (2i, 2i + 1), "
    "interleaved_to_half: read as the latter, written as the former (DeepSeek)",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "H": "query heads",
    "Hkv": "heads of keys and values",
    "Dh": "pairs that are rotated in a head",
    "Dn": "channels of a head that are not rotated",
    "Dp": "half the channels of a head that are not rotated",
    "Dv": "channels of a head of values",
    "P": "positions in the table",
    "Pc": "pages of the cache",
    "page": "tokens of a page",
}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`rope`, `apply_rotary_pos_emb`, `fused_rotary_emb`, `qk_norm_rope`, "
        "`fused_rmsnorm_rope`, `mrope`, `partial_rotary_emb`; `rope_tables`",
        "rotary embeddings of q and k, by positions, by tables or by frequencies; also in "
        "place; of each head's norm, into its cache, of `rms_norm(x)`",
        "AVX-512, AVX2, baseline",
        "registers; any layout",
    ),
]
