"""Docstring pieces of flash_attention_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "flash_attention_backward": {
        "summary": "Gradient of flash_attention_lse with respect to q, k and v.",
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
            "dout is f32, f16 or bf16; q, k, v, o and results have dout's dtype; lse and dlse are "
            "f32; bias has dout's dtype or f32."
        ),
        "aliasing": "Results share no memory with arguments.",
        "numerics": (
            "Computes in f32 and rounds once, at the store; tensor cores round P and dS to dout's "
            "dtype before the last products. Sums have a fixed order: every run on one kind of "
            "device gives the same bits. Results are undefined where an input is infinite or NaN, "
            "even in a key that no query sees."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "Dao, FlashAttention-2, 2023, section 2.3.2.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dout": "gradient with respect to o",
    "q": "q as passed to flash_attention_lse",
    "k": "k as passed to flash_attention_lse",
    "v": "v as passed to flash_attention_lse",
    "o": "o as returned by flash_attention_lse",
    "lse": "lse as returned by flash_attention_lse",
    "dlse": "gradient with respect to lse; 0 if not given",
    "bias": "bias as passed to flash_attention_lse; gradient.py there computes its gradient",
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
