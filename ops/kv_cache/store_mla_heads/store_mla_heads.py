"""Docstring pieces of store_mla_heads. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "store_mla_heads": {
        "summary": "Writes latents and rotary keys, split into pieces, to slots of paged caches.",
        "formula": (
            "ckv_cache[slot / page, slot % page] = ckv / ckv_scale, kpe_cache likewise, for slot = "
            "slot_mapping[t] ≥ 0; an absent scale is 1; nothing else changes"
        ),
        "shapes": (
            "ckv [*T, Hc, D], kpe [*T, Hp, D], ckv_cache [P, page, Hc, D], kpe_cache [P, page, Hp, "
            "D], slot_mapping [*T], scales []. Any leading dimensions, any strides. D divides both "
            "widths: store_mla_cache takes [*T, Hc·D] and [*T, Hp·D] and splits them."
        ),
        "dtypes": (
            "ckv is f32, f16 or bf16, kpe has ckv's dtype; caches have ckv's dtype, f8e4m3 or "
            "f8e5m2; slot_mapping is i32 or i64; scales are f32."
        ),
        "aliasing": "ckv_cache and kpe_cache are written; they must not overlap another argument.",
        "numerics": (
            "Without scales, and with caches of ckv's dtype, values are copied (a NaN stays a "
            "NaN). Otherwise each value is divided in f32 and rounded once; f8 saturates."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written. Slots must be distinct and below P · page, scales above 0; CPUs "
            "check all but that slots are distinct."
        ),
        "source": "DeepSeek-V2, 2024; as in vLLM's concat_and_cache_mla, with two caches.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "ckv": "compressed keys and values, Hc pieces per token",
    "kpe": "rotary keys, Hp pieces per token",
    "ckv_cache": "pages of latents; written",
    "kpe_cache": "pages of rotary keys; written",
    "slot_mapping": "slot of each token, page number · page + offset; −1 skips the token",
    "ckv_scale": "divisor of the latents",
    "kpe_scale": "divisor of the rotary keys",
}
