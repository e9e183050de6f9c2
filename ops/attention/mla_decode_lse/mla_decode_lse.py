"""Docstring pieces of mla_decode_lse. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "mla_decode_lse": {
        "summary": "DeepSeek's latent attention over a paged cache, one token per sequence.",
        "formula": (
            "o = softmax(s) · ckv, s = scale · (q_nope · ckvᵀ + q_pe · kpeᵀ) over the keys of the "
            "token's sequence; lse = log Σ e^s"
        ),
        "shapes": (
            "q_nope [T, H, R], q_pe [T, H, Dr], ckv_cache [P, page, R], kpe_cache [P, page, Dr], "
            "page_table [T, W] (or [1, W], one for all), seq_lens [T] -> o [T, H, R], lse [T, H]. "
            "R 512 and Dr 64 in DeepSeek-V2; queries are in the latents' space already. Any "
            "strides: slices of one cache [P, page, R + Dr] too."
        ),
        "dtypes": (
            "q_nope f32, f16 or bf16; q_pe, caches and o q_nope's dtype; tables i32; lse f32."
        ),
        "aliasing": "Results share no memory with arguments.",
        "numerics": (
            "In f32, online softmax, one rounding, at the store. Slots after a sequence's end are "
            "never read. A token without keys is 0, its lse −inf. An infinity in what a token sees "
            "gives infinities or NaN."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; nothing is "
            "written then. CPUs refuse a length beyond the table and a number of no page among "
            "those that a token sees. GPUs check neither: a length counts to the table's end at "
            "most."
        ),
        "source": "DeepSeek-AI, DeepSeek-V2, 2024; FlashMLA.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "q_nope": "new tokens, one row of heads each, in the latents' space",
    "q_pe": "their rotated part",
    "ckv_cache": "pages of latents: keys and values",
    "kpe_cache": "pages of rotated keys",
    "page_table": "the pages of each sequence, in order",
    "seq_lens": "keys of each sequence, its new token among them",
    "scale": "of scores; 0: 1 / √(R + Dr)",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "H": "heads of q",
    "R": "elements of a latent",
    "Dr": "elements of a rotated key",
    "P": "pages of the caches",
    "page": "tokens of a page",
    "W": "pages of a sequence, at most",
}
