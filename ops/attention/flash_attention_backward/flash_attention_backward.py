"""Docstring pieces of flash_attention_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "flash_attention_backward": {
        "summary": "The gradient of flash_attention_lse in q, k and v.",
        "formula": (
            "P = e^(s − lse), dP = dout · v, δ = Σ_Dv dout · o − dlse, dS = P · (dP − δ) · (1 − "
            "(c / softcap)²) of the capped c; dq = scale · Σ_k dS · k, dk = scale · Σ_q dS · q, "
            "dv = Σ_q P · dout"
        ),
        "shapes": (
            "dout and o [B, S, H, Dv], q [B, S, H, D], k [B, L, Hkv, D], v [B, L, Hkv, Dv], lse "
            "and dlse [B, H, S], bias [1|B, 1|H, 1|S, L] -> dq, dk, dv, shaped as q, k and v. Any"
            " strides."
        ),
        "dtypes": (
            "dout f32, f16 or bf16; q, k, v, o and results dout's dtype; lse and dlse f32; bias "
            "dout's dtype or f32."
        ),
        "aliasing": "Results share no memory with arguments.",
        "numerics": (
            "In f32, one rounding, at the store; tensor cores round P and dS to dout's dtype "
            "before the last products. Sums have one order: the same bits in every run on one kind "
            "of device. Where an input is infinite or NaN, also in a key that no query sees, "
            "results are undefined."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; nothing is "
            "written then."
        ),
        "source": "Dao, FlashAttention-2, 2023, section 2.3.2.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dout": "the gradient that arrives at o",
    "q": "what flash_attention_lse was given",
    "k": "what flash_attention_lse was given",
    "v": "what flash_attention_lse was given",
    "o": "what flash_attention_lse returned",
    "lse": "what flash_attention_lse returned",
    "dlse": "the gradient that arrives at lse; none: 0",
    "bias": "what flash_attention_lse was given; its gradient is another's: gradient.py there",
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
