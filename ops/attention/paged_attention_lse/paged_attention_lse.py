"""Docstring pieces of paged_attention_lse. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "paged_attention_lse": {
        "summary": "Attention over a paged cache, and its log-sum-exp.",
        "formula": (
            "o = softmax(s) · v · v_scale, s = scale · k_scale · q · kᵀ over the keys that a row "
            "sees, with softcap s = softcap · tanh(s / softcap); a sink adds e^sink to the "
            "denominator; lse = log of the denominator"
        ),
        "shapes": (
            "q [T, H, D], k_cache [P, page, Hkv, D], v_cache [P, page, Hkv, Dv], page_table [B, W] "
            "(or [1, W], one for all), seq_lens [B] -> o [T, H, Dv], lse [T, H]. H is a multiple "
            "of Hkv: query heads h·H/Hkv … share head h of the caches. Rows cu_seqlens_q[b] … "
            "cu_seqlens_q[b+1] − 1 of q are the last tokens of sequence b; without cu_seqlens_q, "
            "there is one row per sequence. With indptr [B+1], the pages of b are entries "
            "indptr[b] to indptr[b+1] − 1 of its row of page_table. Any strides, so caches [P, "
            "Hkv, page, D] are passed as transposed views."
        ),
        "dtypes": (
            "q is f32, f16 or bf16, o has q's dtype; both caches have q's dtype, f8e4m3 or f8e5m2; "
            "lists of integers are i32 or i64, each by itself; sinks, scales and lse are f32."
        ),
        "aliasing": "Results share no memory with arguments.",
        "numerics": (
            "Computes in f32 with online softmax and rounds once, at the store; with cu_seqlens_q, "
            "weights may be rounded to q's 16 bits before the product with v, and denormal bf16 "
            "values count as zero. Slots and pages that no row sees have no effect, even if they "
            "hold NaN. A row that sees nothing has o = 0 and lse = −inf, or the sink if there is "
            "one; a row of no sequence has o = 0 and lse = −inf. An infinity in what a row sees "
            "gives infinities or NaN, and a non-finite value may also affect the earlier rows of "
            "its own chunk."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError (a scale or "
            "softcap that is not finite, window below −1). On error nothing is written. CPUs "
            "refuse a length beyond the table, and an invalid page number among those that a row "
            "sees. GPUs check neither: a length is cut at the end of the table, an i64 counts by "
            "its low 32 bits; with indptr it is cut at the end of the sequence's own pages, on "
            "CPUs too."
        ),
        "source": "Kwon et al., PagedAttention, 2023; Dao, Flash-Decoding, 2023.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "q": "new tokens, one row of heads each",
    "k_cache": "pages of keys",
    "v_cache": "pages of values",
    "page_table": "pages of each sequence, in order",
    "seq_lens": "number of keys of each sequence, including its new tokens",
    "cu_seqlens_q": "start of each sequence's rows of q, then the end of the last; ascending",
    "indptr": "start of each sequence's pages in its row of page_table",
    "sinks": "one logit per head, without a value",
    "k_scale": "factor of the keys",
    "v_scale": "factor of the values",
    "scale": "scale of the scores; 0 selects 1/√D",
    "causal": "if true, a query sees no key after its own position",
    "window": (
        "how many keys a query sees before its own position, and after it unless causal; −1: all"
    ),
    "softcap": "bound on the magnitude of a score; 0: no cap",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "Hkv": "heads of the caches",
    "G": "query heads per head of the caches",
    "D": "elements per head of q and k",
    "Dv": "elements per head of v",
    "P": "pages in the caches",
    "page": "tokens per page",
    "B": "sequences",
    "W": "pages per sequence, at most",
}
