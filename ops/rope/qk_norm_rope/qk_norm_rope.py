"""Docstring pieces of qk_norm_rope. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "qk_norm_rope": {
        "summary": "Normalises each query and key head by itself, then rotates it by its position.",
        "formula": (
            "n = x · rsqrt(mean_D(x²) + eps) · weight, the mean over one head; [cos | sin] = "
            "cos_sin_cache[positions]; out_l = n_l · cos − n_h · sin, out_h = n_h · cos + n_l · "
            "sin of pairs (l, h) of the first R channels: (i, i + Dh) for neox, (2i, 2i + 1) for "
            "interleaved, and for interleaved_to_half (2i, 2i + 1) of n, (i, i + Dh) of out; the "
            "last 2Dp channels are n; key_cache[slot / page, slot % page] = k_out"
        ),
        "shapes": (
            "q [T, H, D], k [T, Hkv, D], q_weight and k_weight [D], positions [T], cos_sin_cache "
            "[P, R] with R = 2Dh ≤ D = 2Dh + 2Dp, key_cache [Pc, page, Hkv, D] and slots [T], both "
            "or neither -> q_out [T, H, D], k_out [T, Hkv, D]; key_cache is written. Any strides; "
            "slices of a fused projection are as fast, in place too. On a GPU heads of 16 to 512 "
            "channels, a power of 2, are fast. In Python as rope: more leading dimensions, R."
        ),
        "dtypes": (
            "q f32, f16 or bf16, k q's dtype; q_weight q's dtype or f32, k_weight q_weight's; "
            "cos_sin_cache q's dtype or f32; positions and slots i32 or i64. Results and "
            "key_cache have q's dtype."
        ),
        "aliasing": (
            "qk_norm_rope_(q, k, …) or out=(q, k) writes over q and k; other overlaps are refused."
        ),
        "numerics": (
            "In f32, one rounding, at the store. Values up to 2^80 with eps ≥ 1e-12; heads whose "
            "scaled squares leave f32 are undefined."
        ),
        "errors": (
            "ShapeMismatchError (D or R odd, R above D), UnsupportedDtypeError, DeviceError, "
            "ArgumentError; nothing is written then. A position of P or more, or a slot outside "
            "the cache, is an ArgumentError on CPUs; on GPUs neither is checked. A token with a "
            "negative position is left out: new results are unwritten there. Slot −1 writes none."
        ),
        "source": "Qwen3 Technical Report, 2025; Zhang and Sennrich, 2019; Su et al., 2021.",
    },
}

# Argument -> what it is, in which unit; others as in ops/rope/rope/rope.py.
ARGUMENTS: dict[str, str] = {
    "q_weight": "a factor for each channel of a query head",
    "k_weight": "a factor for each channel of a key head",
    "key_cache": "blocks of page slots, which k_out is written to",
    "slots": "each token's slot: block · page + place; −1: none",
    "eps": "added to the mean square: x's unit squared",
}
