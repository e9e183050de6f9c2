"""Docstring pieces of mla_decode_lse. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "mla_decode_lse": {
        "summary": "DeepSeek's latent attention over a paged cache, one token per sequence.",
        "formula": (
            "o = softmax(s) · ckv · ckv_scale, s = scale · (ckv_scale · q_nope · ckvᵀ + "
            "kpe_scale · q_pe · kpeᵀ) over the keys of the token's sequence; lse = log Σ e^s"
        ),
        "shapes": (
            "q_nope [T, H, R], q_pe [T, H, Dr], ckv_cache [P, page, R], kpe_cache [P, page, Dr], "
            "page_table [T, W] (or [1, W], one for all), seq_lens [T], scales [] -> o [T, H, R], "
            "lse [T, H]. "
            "DeepSeek-V2 has R 512 and Dr 64; queries are already in the latent space. Any "
            "strides, including slices of one cache [P, page, R + Dr]."
        ),
        "dtypes": (
            "q_nope is f32, f16 or bf16; q_pe and o have q_nope's dtype, and both caches have it, "
            "or are both f8e4m3 or both f8e5m2; page_table and seq_lens are each i32 or i64; "
            "scales and lse are f32."
        ),
        "aliasing": "Results share no memory with arguments.",
        "numerics": (
            "Computes in f32 with online softmax and rounds once, at the store; scales multiply "
            "in f32, so codes are never rounded. Slots after a "
            "sequence's end are never read. A token without keys has o = 0 and lse = −inf. An "
            "infinity in what a token sees gives infinities or NaN."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError (a scale that "
            "is not finite). On error nothing is written. CPUs refuse a length beyond the table, "
            "and an invalid page number among those that a token sees. GPUs check neither: a "
            "length is cut at the end of the table, an i64 counts by its low 32 bits."
        ),
        "source": "DeepSeek-AI, DeepSeek-V2, 2024; FlashMLA.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "q_nope": "new tokens, one row of heads each, in the latent space",
    "q_pe": "rotated part of the same queries",
    "ckv_cache": "pages of latents: keys and values",
    "kpe_cache": "pages of rotated keys",
    "page_table": "pages of each sequence, in order",
    "seq_lens": "number of keys of each sequence, including its new token",
    "scale": "scale of the scores; 0 selects 1 / √(R + Dr)",
    "ckv_scale": "factor of the latents; 1 if absent",
    "kpe_scale": "factor of the rotated keys; 1 if absent",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "H": "heads of q",
    "R": "elements per latent",
    "Dr": "elements per rotated key",
    "P": "pages in the caches",
    "page": "tokens per page",
    "W": "pages per sequence, at most",
}
