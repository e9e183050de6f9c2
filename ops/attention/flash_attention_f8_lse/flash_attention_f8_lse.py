"""Docstring pieces of flash_attention_f8_lse. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "flash_attention_f8_lse": {
        "summary": "Attention over f8 heads with descale factors, and its log-sum-exp.",
        "formula": (
            "s = scale · q_descale · k_descale · q · k, with softcap: softcap · tanh(s / softcap), "
            "then + bias; "
            "o = v_descale · Σ_L e^(s − lse) · v, lse = log Σ_L e^s over the keys that a query sees"
        ),
        "shapes": (
            "q [B, S, H, D], k [B, L, Hkv, D], v [B, L, Hkv, Dv], bias [1|B, 1|H, 1|S, L] -> o [B, "
            "S, H, Dv], lse [B, H, S]. H = Hkv·G: query head h uses head h // G of k and v. Query "
            "s is at key s + L − S: with causal, it sees the keys up to that one; with a window, "
            "only the window keys before it, and as many after it unless causal. Descales [1|B, "
            "1|Hkv]; absent ones are 1. Any strides."
        ),
        "dtypes": (
            "q, k and v are f8e4m3, or all three f8e5m2; o is bf16, or out_dtype: bf16, f16 or "
            "f32; bias is f32, f16 or bf16; descales and lse are f32."
        ),
        "aliasing": "Results share no memory with arguments.",
        "numerics": (
            "Scores, softmax and sums are f32, rounded once at the store; tensor cores convert f8 "
            "to f16, exactly, and round the weights to f16 before the product with v. On Hopper "
            "(cuda_wgmma) they multiply q and k as f8 and cut off what is 13 bits below the "
            "largest of 32 products and their running sum. A query that sees no key, or only keys "
            "with a score of −inf, has o = 0 and lse = −inf. The contents of keys that a query "
            "does not see, even NaN, change nothing. A score of +inf makes o and lse NaN. Every "
            "run on one kind of device gives the same bits."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError (softcap other "
            "than 0 or 1e-3 … 1e6, window below −1). On error nothing is written."
        ),
        "source": "Shah et al., FlashAttention-3, 2024.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "q_descale": "factor of q: one per sequence and head of k, or one for all",
    "k_descale": "factor of k, likewise",
    "v_descale": "factor of v, likewise",
    "out_dtype": "dtype of o; bf16 if not given",
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
