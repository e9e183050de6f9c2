"""Docstring pieces of paged_attention_lse. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "paged_attention_lse": {
        "summary": "Attention over a paged cache, and the logarithm of its sums.",
        "formula": (
            "o = softmax(s) · v · v_scale, s = scale · k_scale · q · kᵀ over the keys that a row "
            "sees, with softcap s = softcap · tanh(s / softcap); a sink adds e^sink to the "
            "denominator; lse = log of the denominator"
        ),
        "shapes": (
            "q [T, H, D], k_cache [P, page, Hkv, D], v_cache [P, page, Hkv, Dv], page_table [B, W] "
            "(or [1, W], one for all), seq_lens [B] -> o [T, H, Dv], lse [T, H]. H is a multiple "
            "of Hkv: heads h·H/Hkv … share head h of the caches. Rows cu_seqlens_q[b] … "
            "cu_seqlens_q[b+1] − 1 of q are the last tokens of sequence b; absent: one row a "
            "sequence. With indptr [B+1] the pages of b are those from indptr[b] to "
            "indptr[b+1] − 1 of its row. Any strides, so that caches [P, Hkv, page, D] are "
            "transposed views."
        ),
        "dtypes": (
            "q f32, f16 or bf16, o q's dtype; caches q's dtype, f8e4m3 or f8e5m2, both one; "
            "tables i32; sinks, scales and lse f32."
        ),
        "aliasing": "Results share no memory with arguments.",
        "numerics": (
            "In f32, online softmax, one rounding, at the store; with cu_seqlens_q weights may be "
            "rounded to q's 16 bits before they meet values, and denormal bf16 count as zero. What "
            "lies in slots and pages that no row sees does not show, NaN either. A row that sees "
            "nothing is 0, its lse −inf, or the sink where there is one; a row of no sequence is "
            "0, its lse −inf. An infinity in what a row sees gives infinities or NaN, and a value "
            "that is none may show in the earlier rows of its own chunk."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; nothing is "
            "written then. CPUs refuse a length beyond the table and a number of no page among "
            "those that a row sees. GPUs check neither: a length counts to the table's end at "
            "most, and with indptr to that of the sequence's own pages, on CPUs too."
        ),
        "source": "Kwon et al., PagedAttention, 2023; Dao, Flash-Decoding, 2023.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "q": "new tokens, one row each",
    "k_cache": "pages of keys",
    "v_cache": "pages of values",
    "page_table": "the pages of each sequence, in order",
    "seq_lens": "keys of each sequence, its new tokens among them",
    "cu_seqlens_q": "where the rows of each sequence begin; ascending",
    "indptr": "where the pages of each sequence begin in its row of page_table",
    "sinks": "a logit of each head without a value",
    "k_scale": "what keys are multiplied with",
    "v_scale": "what values are multiplied with",
    "scale": "of scores; 0: 1 / √D",
    "causal": "a row sees no later keys",
    "window": "a row sees that many keys before its own, and after it where it may; −1: all",
    "softcap": "limits scores to ±softcap; 0: none",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "Hkv": "heads of the caches",
    "G": "heads of q that share one of the caches",
    "D": "elements of a query and a key",
    "Dv": "elements of a value",
    "P": "pages of the caches",
    "page": "tokens of a page",
    "B": "sequences",
    "W": "pages of a sequence, at most",
}
