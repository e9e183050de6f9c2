"""Docstring pieces of store_mla_heads. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "store_mla_heads": {
        "summary": "Writes latents and rotary keys, cut into pieces, into slots of paged caches.",
        "formula": (
            "ckv_cache[slot / page, slot % page] = ckv / ckv_scale, kpe_cache alike, for slot = "
            "slot_mapping[t] ≥ 0; an absent scale is 1; nothing else changes"
        ),
        "shapes": (
            "ckv [T, Hc, D], kpe [T, Hp, D], ckv_cache [P, page, Hc, D], kpe_cache [P, page, Hp, "
            "D], slot_mapping [T], scales []. Any strides. D divides both widths: "
            "store_mla_cache takes [T, Hc·D] and [T, Hp·D] and cuts them."
        ),
        "dtypes": (
            "ckv f32, f16 or bf16, kpe ckv's dtype; caches ckv's dtype, f8e4m3 or f8e5m2; "
            "slot_mapping i32 or i64; scales f32."
        ),
        "aliasing": "ckv_cache and kpe_cache are written; they share no memory with anything else.",
        "numerics": (
            "Without scales and with caches of ckv's dtype values are copied (a NaN stays a NaN). "
            "Else a quotient in f32 and one rounding; f8 saturates."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; nothing is "
            "written then. Slots are below P · page (a CPU checks), none named twice."
        ),
        "source": "DeepSeek-V2, 2024; as vLLM's concat_and_cache_mla, with two caches.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "ckv": "compressed keys and values, Hc pieces of a token's row",
    "kpe": "rotary keys, Hp pieces of a token's row",
    "ckv_cache": "blocks of pages of latents, written",
    "kpe_cache": "blocks of pages of rotary keys, written",
    "slot_mapping": "block · page + place of each token; −1 skips it",
    "ckv_scale": "what latents are divided by",
    "kpe_scale": "what rotary keys are divided by",
}
