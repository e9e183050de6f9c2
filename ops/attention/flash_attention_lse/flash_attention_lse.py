"""Docstring pieces of flash_attention_lse. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "flash_attention_lse": {
        "summary": "Attention of query heads over key and value heads, and its log-sum-exp.",
        "formula": (
            "s = scale · q · k, with softcap: softcap · tanh(s / softcap), then + bias; "
            "o = Σ_L e^(s − lse) · v, lse = log Σ_L e^s over the keys that a query sees"
        ),
        "shapes": (
            "q [B, S, H, D], k [B, L, Hkv, D], v [B, L, Hkv, Dv], bias [1|B, 1|H, 1|S, L] -> "
            "o [B, S, H, Dv], lse [B, H, S]. H = Hkv·G: query head h takes head h // G of k and v. "
            "Query s is at key s + L − S: causal, it sees the keys up to that one; with a window, "
            "the window keys before it, and as many after it unless causal. Any strides; a GPU is "
            "fastest on rows of heads at multiples of 16 bytes."
        ),
        "dtypes": "q f32, f16 or bf16; k, v and o q's dtype; bias q's dtype or f32; lse f32.",
        "aliasing": "Results share no memory with arguments.",
        "numerics": (
            "Scores, softmax and sums in f32, one rounding, at the store; tensor cores, and AMX on "
            "CPUs (bf16), round the weights to q's dtype before the product with v. AMX takes "
            "denormal bf16 for zero. A query that sees no key, or keys of "
            "score −inf alone, has o = 0 and lse = −inf. What keys hold that a query does not see, "
            "NaN too, changes nothing. A score of +inf makes o and lse NaN. On one kind of device "
            "the same bits in every run."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError (softcap other "
            "than 0 or 1e-3 … 1e6, window below −1); nothing is written then."
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
    "causal": "whether a query sees no key after its own position",
    "scale": "what q · k is multiplied with; 0: 1/√D",
    "window": "how many keys before its own position a query sees; −1: all",
    "softcap": "the largest magnitude of a score; 0: no cap",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "B": "sequences",
    "S": "query positions of a sequence",
    "L": "key positions of a sequence",
    "Hkv": "heads of k and v",
    "G": "query heads of a head of k",
    "D": "elements of a head of q and k",
    "Dv": "elements of a head of v",
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
        "attention, dense and of packed sequences, of f8 too, and its gradient",
        "AMX (bf16), AVX-512, AVX2, baseline",
        "WGMMA (Hopper); mma.sync (sm_80 and later); rows, f32 and any layout",
    ),
]
