"""Docstring pieces of flash_attention_varlen_lse. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "flash_attention_varlen_lse": {
        "summary": "Attention over packed sequences, and its log-sum-exp.",
        "formula": (
            "per sequence: s = scale · q · k, with softcap: softcap · tanh(s / softcap); o = Σ_k "
            "e^(s − lse) · v, lse = log Σ_k e^s over the keys that a query sees"
        ),
        "shapes": (
            "q [T, H, D], k [U, Hkv, D], v [U, Hkv, Dv], cu_seqlens_q and cu_seqlens_k [N + 1] -> "
            "o [T, H, Dv], lse [H, T]. Sequence n has rows cu_seqlens[n] … cu_seqlens[n + 1] − 1 "
            "of q and of k; either range may be empty. H = Hkv·G: query head h uses head h // G of "
            "k and v. The last query of a sequence is at its last key: with causal, a query sees "
            "the keys up to its own; with a window, only the window keys before it, and as many "
            "after it unless causal. Any strides."
        ),
        "dtypes": (
            "q is f32, f16 or bf16; k, v and o have q's dtype; offsets are i32 or i64; lse is f32."
        ),
        "aliasing": "Results share no memory with arguments.",
        "numerics": (
            "As flash_attention_lse. Rows of q after the last sequence have o = 0 and lse = −inf. "
            "Lengths are read on the device: the host does not wait for them, and a captured graph "
            "also serves other lengths. The first offset counts as 0; offsets outside 0 … T "
            "(cu_seqlens_k: 0 … U) are refused on a CPU and clamped on a GPU."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError (softcap other "
            "than 0 or 1e-3 … 1e6, window below −1). On error nothing is written."
        ),
        "source": "flash_attn_varlen_func of FlashAttention-2, Dao, 2023.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "q": "query heads of all sequences' positions, concatenated",
    "k": "key heads, likewise",
    "v": "value heads, likewise",
    "cu_seqlens_q": "start of each sequence's rows of q, then the end of the last",
    "cu_seqlens_k": "start of each sequence's rows of k and v, then the end of the last",
    "causal": "if true, a query sees no key after its own position",
    "scale": "scale of the scores; 0 selects 1/√D",
    "window": (
        "how many keys a query sees before its own position, and after it unless causal; −1: all"
    ),
    "softcap": "bound on the magnitude of a score; 0: no cap",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "U": "key positions of all sequences",
    "N": "sequences",
    "Hkv": "heads of k and v",
    "G": "query heads per head of k",
    "D": "elements per head of q and k",
    "Dv": "elements per head of v",
}

# Its gradient; ops/norm/rms_norm/rms_norm.py explains the four keys.
AUTOGRAD: dict[str, dict[str, str | dict[str, str]]] = {
    "flash_attention_varlen_lse": {
        "backward": "flash_attention_varlen_backward",
        "saves": {
            "q": "q", "k": "k", "v": "v", "o": "o", "lse": "lse",
            "cu_seqlens_q": "cu_seqlens_q", "cu_seqlens_k": "cu_seqlens_k",
        },
        "takes": {"dout": "o", "dlse": "lse"},
        "gives": {"q": "dq", "k": "dk", "v": "dv"},
    },
}  # fmt: skip
