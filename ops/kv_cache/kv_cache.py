"""Schema letters of the operators that fill a paged cache; the rows of docs/all_operators.md.

Pure data: no imports, nothing computed.
"""

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "Hkv": "heads of keys and values",
    "Hc": "heads of the latents, mostly 1",
    "Hp": "heads of the rotary keys, mostly 1",
    "D": "elements of a head",
    "Dv": "elements of a head of values",
    "P": "pages of the cache",
    "page": "tokens of a page",
}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`store_kv_cache` (`fill_kv_cache`), `store_mla_cache`; `merge_attention_states`",
        "new keys and values, or latents, into a paged cache, f8 too; two attentions over "
        "parts of the keys as one",
        "AVX-512, AVX2, baseline",
        "registers; any layout",
    ),
    (
        "`paged_attention`, `mla_decode`",
        "attention over paged caches: decoding and chunks of a prompt, grouped heads, windows, "
        "sinks, f8 too; DeepSeek's latent attention",
        "AVX-512, AVX2, baseline",
        "tensor cores, parts of the keys joined after; any case, any layout",
    ),
]
