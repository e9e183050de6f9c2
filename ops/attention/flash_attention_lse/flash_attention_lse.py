"""Docstring pieces of flash_attention_lse. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "flash_attention_lse": {
        "summary": "Attention of query heads over key and value heads, and its log-sum-exp.",
        "formula": (
            "s = scale · q · k, with softcap: softcap · tanh(s / softcap), then + bias; "
            "o = Σ_L e^(s − lse) · v, lse = log Σ_L e^s over the keys that a query sees"
        ),
        "shapes": (
            "q [B, S, H, D], k [B, L, Hkv, D], v [B, L, Hkv, Dv], bias [1|B, 1|H, 1|S, L] -> o [B, "
            "S, H, Dv], lse [B, H, S]. H = Hkv·G: query head h uses head h // G of k and v. Query "
            "s is at key s + L − S: with causal, it sees the keys up to that one; with a window, "
            "only the window keys before it, and as many after it unless causal. Any strides; a "
            "GPU is fastest if rows of heads start at multiples of 16 bytes."
        ),
        "dtypes": (
            "q is f32, f16 or bf16; k, v and o have q's dtype; bias has q's dtype or f32; lse is "
            "f32."
        ),
        "aliasing": "Results share no memory with arguments.",
        "numerics": (
            "Scores, softmax and sums are f32, rounded once at the store; tensor cores, and AMX on "
            "CPUs (bf16), round the weights to q's dtype before the product with v. AMX treats "
            "denormal bf16 values as zero. A query that sees no key, or only keys with a score of "
            "−inf, has o = 0 and lse = −inf. The contents of keys that a query does not see, even "
            "NaN, change nothing. A score of +inf makes o and lse NaN. Every run on one kind of "
            "device gives the same bits."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError (softcap other "
            "than 0 or 1e-3 … 1e6, window below −1). On error nothing is written."
        ),
        "source": "Dao, FlashAttention-2, 2023; Shah et al., FlashAttention-3, 2024.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "q": "query heads of each position",
    "k": "key heads of each position",
    "v": "value heads of each position",
    "bias": "added to the scores; −inf hides a key",
    "causal": "if true, a query sees no key after its own position",
    "scale": "scale of the scores; 0 selects 1/√D",
    "window": (
        "how many keys a query sees before its own position, and after it unless causal; −1: all"
    ),
    "softcap": "bound on the magnitude of a score; 0: no cap",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "B": "sequences",
    "S": "query positions per sequence",
    "L": "key positions per sequence",
    "Hkv": "heads of k and v",
    "G": "query heads per head of k",
    "D": "elements per head of q and k",
    "Dv": "elements per head of v",
}

# Its gradient; ops/norm/rms_norm/rms_norm.py explains the four keys.
AUTOGRAD: dict[str, dict[str, str | dict[str, str]]] = {
    "flash_attention_lse": {
        "backward": "flash_attention_backward",
        "saves": {
            "q": "q", "k": "k", "v": "v", "o": "o", "lse": "lse", "bias": "bias",
        },
        "takes": {"dout": "o", "dlse": "lse"},
        "gives": {"q": "dq", "k": "dk", "v": "dv"},
        "formulas": "gradient",  # of the bias
    },
}  # fmt: skip

# Row of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`flash_attention`, `flash_attention_varlen` (`flash_attention_lse`, "
        "`flash_attention_varlen_lse`, `…_f8_lse`, `flash_attention_backward`, "
        "`flash_attention_varlen_backward`); `flash_attention_v2`",
        "attention over dense and packed sequences, also in f8, and its gradient",
        "AMX (bf16), AVX-512, AVX2, baseline",
        "WGMMA (Hopper); mma.sync (sm_80 and later); a row kernel for f32 and any layout",
    ),
]
