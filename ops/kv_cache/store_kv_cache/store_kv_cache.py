"""Docstring pieces of store_kv_cache. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "store_kv_cache": {
        "summary": "Writes new keys and values into the slots of a paged cache.",
        "formula": (
            "k_cache[slot / page, slot % page] = k / k_scale, v_cache alike, for slot = "
            "slot_mapping[t] ≥ 0; an absent scale is 1; nothing else changes"
        ),
        "shapes": (
            "k [T, Hkv, D], v [T, Hkv, Dv], k_cache [P, page, Hkv, D], v_cache [P, page, Hkv, Dv], "
            "slot_mapping [T], scales []. Values of another width than keys take two launches, one "
            "for each cache. Any strides: slices kv[:, 0] and kv[:, 1] of a cache "
            "[P, 2, page, Hkv, D] too. In Python tokens may have more leading dimensions."
        ),
        "dtypes": (
            "k f32, f16 or bf16, v k's dtype; caches k's dtype, f8e4m3 or f8e5m2; slot_mapping "
            "i32 or i64; scales f32."
        ),
        "aliasing": "k_cache and v_cache are written; they share no memory with anything else.",
        "numerics": (
            "Without scales and with caches of k's dtype values are copied (a NaN stays a NaN). "
            "Else a quotient in f32 and one rounding; f8 saturates."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; nothing is "
            "written then. Slots are below P · page (a CPU checks), none named twice."
        ),
        "source": "The cache of Kwon et al., PagedAttention, 2023; as vLLM's reshape_and_cache.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "k": "new keys, a row for each token",
    "v": "new values",
    "k_cache": "blocks of pages of keys, written",
    "v_cache": "blocks of pages of values, written",
    "slot_mapping": "block · page + place of each token; −1 skips it",
    "k_scale": "what keys are divided by",
    "v_scale": "what values are divided by",
}
