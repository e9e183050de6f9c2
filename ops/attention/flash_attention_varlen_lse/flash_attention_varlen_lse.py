"""Docstring pieces of flash_attention_varlen_lse. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "flash_attention_varlen_lse": {
        "summary": "Attention of packed sequences, and its log-sum-exp.",
        "formula": (
            "of each sequence: s = scale · q · k, with softcap: softcap · tanh(s / softcap); "
            "o = Σ_k e^(s − lse) · v, lse = log Σ_k e^s over the keys that a query sees"
        ),
        "shapes": (
            "q [T, H, D], k [U, Hkv, D], v [U, Hkv, Dv], cu_seqlens_q and cu_seqlens_k [N + 1] -> "
            "o [T, H, Dv], lse [H, T]. Sequence n has rows cu_seqlens[n] … cu_seqlens[n + 1] − 1 "
            "of q and of k, of which either may be none. H = Hkv·G: query head h takes head h // G "
            "of k and v. The last query of a sequence is at its last key: causal, a query sees the "
            "keys up to its own; with a window, the window keys before it, and as many after it "
            "unless causal. Any strides."
        ),
        "dtypes": "q f32, f16 or bf16; k, v and o q's dtype; offsets i32; lse f32.",
        "aliasing": "Results share no memory with arguments.",
        "numerics": (
            "Those of flash_attention_lse. Rows of q after the last sequence have o = 0 and "
            "lse = −inf. Lengths are read on the device: nothing waits for them, and a captured "
            "graph serves others. The first offset counts as 0; what "
            "leaves 0 … T is refused on a CPU and clamped on a GPU."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError (softcap other "
            "than 0 or 1e-3 … 1e6, window below −1); nothing is written then."
        ),
        "source": "flash_attn_varlen_func of FlashAttention-2, Dao, 2023.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "q": "query heads of all sequences' positions, one after the other",
    "k": "key heads, likewise",
    "v": "value heads, likewise",
    "cu_seqlens_q": "where each sequence's rows of q begin, and the last one's end",
    "cu_seqlens_k": "where each sequence's rows of k and v begin, and the last one's end",
    "causal": "whether a query sees no key after its own position",
    "scale": "what q · k is multiplied with; 0: 1/√D",
    "window": "how many keys before its own position a query sees; −1: all",
    "softcap": "the largest magnitude of a score; 0: no cap",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "U": "key positions of all sequences",
    "N": "sequences",
    "Hkv": "heads of k and v",
    "G": "query heads of a head of k",
    "D": "elements of a head of q and k",
    "Dv": "elements of a head of v",
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
