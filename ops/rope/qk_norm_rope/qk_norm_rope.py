"""Docstring pieces of qk_norm_rope. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "qk_norm_rope": {
        "summary": "Normalises each query and key head, then rotates it by its position.",
        "formula": (
            "n = x · rsqrt(mean_D(x²) + eps) · weight, the mean over one head; [cos | sin] = "
            "cos_sin_cache[positions]; out_l = n_l · cos − n_h · sin, out_h = n_h · cos + n_l · "
            "sin of pairs (l, h) of the first R channels: (i, i + Dh) for neox, (2i, 2i + 1) for "
            "interleaved, and for interleaved_to_half (2i, 2i + 1) of n, (i, i + Dh) of out; the "
            "last 2Dp channels are n; key_cache[slot / page, slot % page] = k_out / "
            "k_scale"
        ),
        "shapes": (
            "q [*T, H, D], k [*T, Hkv, D], q_weight and k_weight [D], positions [*T], "
            "cos_sin_cache [P, R] with R = 2Dh ≤ D = 2Dh + 2Dp, key_cache [Pc, page, Hkv, D] and "
            "slots [*T], both or neither -> q_out [*T, H, D], k_out [*T, Hkv, D]; key_cache is "
            "written. Any strides, as rope; slices of a fused projection are as fast, in place "
            "too. On a GPU, heads of 16 to 512 channels, powers of 2, are fast. rotary_dim as rope."
        ),
        "dtypes": (
            "q is f32, f16 or bf16, k has q's dtype; q_weight has q's dtype or f32, k_weight has "
            "q_weight's dtype; cos_sin_cache has q's dtype or f32; positions and slots are i32 or "
            "i64. Results have q's dtype; key_cache has q's dtype, f8e4m3 or "
            "f8e5m2."
        ),
        "aliasing": "qk_norm_rope_(q, k, …) or out=(q, k) writes over q and k; no other overlap.",
        "numerics": (
            "Computes in f32 and rounds once, at the store, for k_out and for the cache, where f8 "
            "saturates. Holds for values up to 2^80 with eps ≥ 1e-12; heads whose scaled squares "
            "leave f32's range are undefined."
        ),
        "errors": (
            "ShapeMismatchError (D or R odd, R above D), UnsupportedDtypeError, DeviceError, "
            "ArgumentError. On error nothing is written. A position of P or more, or a slot "
            "outside the cache, is an ArgumentError on CPUs; on GPUs neither is checked. A token "
            "with a negative position is skipped: new results are not written there. Slot −1 "
            "writes nothing to the cache."
        ),
        "source": "Qwen3 Technical Report, 2025; Zhang and Sennrich, 2019; Su et al., 2021.",
    },
}

# Argument -> what it is, in which unit; others as in ops/rope/rope/rope.py.
ARGUMENTS: dict[str, str] = {
    "q_weight": "factor per channel of a query head",
    "k_weight": "factor per channel of a key head",
    "key_cache": "pages of keys, which k_out is written to",
    "k_scale": "what k_out is divided by in the cache",
    "slots": "slot of each token, page number · page + offset; −1: none",
    "eps": "added to the mean square, in units of x squared",
}
