"""Schema letters of the operators that fill a paged cache; the rows of docs/all_operators.md.

Pure data: no imports, nothing computed.
"""

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "Hkv": "heads of keys and values",
    "Hc": "heads of the latents, usually 1",
    "Hp": "heads of the rotary keys, usually 1",
    "D": "elements per head",
    "Dv": "elements per head of values",
    "P": "pages in the cache",
    "page": "tokens per page",
}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`store_kv_cache` (`fill_kv_cache`), `store_mla_cache`; `merge_attention_states`",
        "writes new keys and values, or latents, into a paged cache, also in f8; merges two "
        "attentions over parts of the keys into one",
        "AVX-512, AVX2, baseline",
        "registers; any layout",
    ),
    (
        "`paged_attention`, `mla_decode`",
        "attention over paged caches: decoding and chunks of a prompt, grouped heads, windows, "
        "sinks, also in f8; DeepSeek's latent attention",
        "AMX (`paged_attention`), AVX-512, AVX2, baseline",
        "tensor cores, over parts of the keys that are merged afterwards; a row kernel for any "
        "case and layout",
    ),
]
