"""Docstring pieces of rope. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "rope": {
        "summary": "Rotates query and key heads by table rows that positions select.",
        "formula": (
            "[cos | sin] = cos_sin_cache[positions]; out_l = x_l · cos − x_h · sin, out_h = x_h · "
            "cos + x_l · sin of pairs (l, h): (i, i + Dh) for neox, (2i, 2i + 1) for interleaved, "
            "and for interleaved_to_half (2i, 2i + 1) of x, (i, i + Dh) of out; the last Dn "
            "channels are copied, or left alone in place"
        ),
        "shapes": (
            "q [*T, H, D], k [*T, Hkv, D], positions [*T], cos_sin_cache [P, R] with R = 2Dh ≤ D = "
            "2Dh + Dn -> q_out [*T, H, D], k_out [*T, Hkv, D]. Any leading dimensions, any "
            "strides: slices of a fused projection, and heads that lie before tokens, [B, H, S, D] "
            "seen as [B, S, H, D], need no copy, in place neither. In Python, rotary_dim=R may "
            "state the table's width; any other value is refused."
        ),
        "dtypes": (
            "q is f32, f16 or bf16, k has q's dtype; cos_sin_cache has q's dtype or f32; positions "
            "is i32 or i64. Results have q's dtype."
        ),
        "aliasing": "rope_(q, k, …) or out=(q, k) writes over q and k; other overlaps are refused.",
        "numerics": (
            "Computes in f32 and rounds once, at the store. Results have the same bits in any "
            "batch."
        ),
        "errors": (
            "ShapeMismatchError (R odd or above D), UnsupportedDtypeError, DeviceError, "
            "ArgumentError. On error nothing is written. A position of P or more is an "
            "ArgumentError on CPUs; on GPUs it is not checked and reads outside the table. A token "
            "with a negative position is skipped: in place it keeps its values; in a new result "
            "its values are not written and stay whatever the memory held."
        ),
        "source": "Su et al., RoFormer, 2021; the cache as in vLLM's rotary_embedding.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "q": "query heads",
    "k": "key heads",
    "positions": "row of cos_sin_cache for each token, from 0 to P − 1",
    "cos_sin_cache": "one row per position: cosines of its Dh angles, then their sines",
    "style": (
        "which channels form a pair: neox (i, i + Dh), interleaved (2i, 2i + 1), or "
        "interleaved_to_half: read as interleaved, written as neox (DeepSeek)"
    ),
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "H": "query heads",
    "Hkv": "heads of keys and values",
    "Dh": "rotated pairs per head",
    "Dn": "channels per head that are not rotated",
    "Dp": "half the channels per head that are not rotated",
    "Dv": "channels per head of values",
    "P": "positions in the table",
    "Pc": "pages in the cache",
    "page": "tokens per page",
}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`rope`, `apply_rotary_pos_emb`, `fused_rotary_emb`, `qk_norm_rope`, "
        "`fused_rmsnorm_rope`, `mrope`, `partial_rotary_emb`; `rope_tables`",
        "rotary embeddings of q and k, by positions, tables or frequencies; also in place; after a "
        "norm of each head, with a store to the key cache; after `rms_norm(x)`",
        "AVX-512, AVX2, baseline",
        "registers; any layout",
    ),
]
