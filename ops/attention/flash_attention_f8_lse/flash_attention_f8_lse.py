"""Docstring pieces of flash_attention_f8_lse. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "flash_attention_f8_lse": {
        "summary": "Attention of f8 heads with factors, and its log-sum-exp.",
        "formula": (
            "s = scale · q_descale · k_descale · q · k, with softcap: softcap · tanh(s / softcap), "
            "then + bias; "
            "o = v_descale · Σ_L e^(s − lse) · v, lse = log Σ_L e^s over the keys that a query sees"
        ),
        "shapes": (
            "q [B, S, H, D], k [B, L, Hkv, D], v [B, L, Hkv, Dv], bias [1|B, 1|H, 1|S, L] -> "
            "o [B, S, H, Dv], lse [B, H, S]. H = Hkv·G: query head h takes head h // G of k and v. "
            "Query s is at key s + L − S: causal, it sees the keys up to that one; with a window, "
            "the window keys before it, and as many after it unless causal. "
            "Descales [1|B, 1|Hkv], absent: 1. Any strides."
        ),
        "dtypes": (
            "q, k and v f8e4m3, or all three f8e5m2; o bf16, f16 or f32 by out_dtype; "
            "bias f32, f16 or bf16; descales and lse f32."
        ),
        "aliasing": "Results share no memory with arguments.",
        "numerics": (
            "Scores, softmax and sums in f32, one rounding, at the store; tensor cores take f8 "
            "as f16, exactly, and round the weights to f16 before the product with v. Hopper's "
            "(cuda_wgmma) multiply q and k as f8, and cut what is 13 bits below the largest of 32 "
            "products and their sum so far. A query that "
            "sees no key, or keys of score −inf alone, has o = 0 and lse = −inf. What keys hold "
            "that a query does not see, NaN too, changes nothing. A score of +inf makes o and lse "
            "NaN. On one kind of device "
            "the same bits in every run."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError (softcap other "
            "than 0 or 1e-3 … 1e6, window below −1); nothing is written then."
        ),
        "source": "Shah et al., FlashAttention-3, 2024.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "q_descale": "what q is multiplied with: of each sequence and head of k, or one for all",
    "k_descale": "what k is multiplied with, likewise",
    "v_descale": "what v is multiplied with, likewise",
    "out_dtype": "of o; None: bf16",
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
