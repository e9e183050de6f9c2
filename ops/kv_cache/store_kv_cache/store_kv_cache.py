"""Docstring pieces of store_kv_cache. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "store_kv_cache": {
        "summary": "Writes new keys and values to slots of a paged cache.",
        "formula": (
            "k_cache[slot / page, slot % page] = k / k_scale, v_cache likewise, for slot = "
            "slot_mapping[t] ≥ 0; an absent scale is 1; nothing else changes"
        ),
        "shapes": (
            "k [*T, Hkv, D], v [*T, Hkv, Dv], k_cache [P, page, Hkv, D], v_cache [P, page, Hkv, "
            "Dv], slot_mapping [*T], scales []. If keys and values differ in width, there are two "
            "launches. Any strides: slices kv[:, 0] and kv[:, 1] of a cache [P, 2, page, Hkv, D]."
        ),
        "dtypes": (
            "k is f32, f16 or bf16, v has k's dtype; caches have k's dtype, f8e4m3 or f8e5m2; "
            "slot_mapping is i32 or i64; scales are f32."
        ),
        "aliasing": "k_cache and v_cache are written; they must not overlap another argument.",
        "numerics": (
            "Without scales, and with caches of k's dtype, values are copied (a NaN stays a NaN). "
            "Otherwise each value is divided in f32 and rounded once; f8 saturates."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written. Slots must be distinct and below P · page, scales above 0; CPUs "
            "check all but that slots are distinct."
        ),
        "source": "The cache of Kwon et al., PagedAttention, 2023; as in vLLM's reshape_and_cache.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "k": "new keys, one row per token",
    "v": "new values, one row per token",
    "k_cache": "pages of keys; written",
    "v_cache": "pages of values; written",
    "slot_mapping": "slot of each token, page number · page + offset; −1 skips the token",
    "k_scale": "divisor of the keys",
    "v_scale": "divisor of the values",
}
