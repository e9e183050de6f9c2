"""Docstring pieces of flash_attention_varlen_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "flash_attention_varlen_backward": {
        "summary": "Gradient of flash_attention_varlen_lse with respect to q, k and v.",
        "formula": (
            "per sequence: P = e^(s − lse), dP = dout · v, δ = Σ_Dv dout · o − dlse, dS = P · (dP "
            "− δ) · (1 − (c / softcap)²) of the capped c; dq = scale · Σ_k dS · k, dk = scale · "
            "Σ_q dS · q, dv = Σ_q P · dout"
        ),
        "shapes": (
            "dout and o [T, H, Dv], q [T, H, D], k [U, Hkv, D], v [U, Hkv, Dv], lse and dlse [H, "
            "T], cu_seqlens_q and cu_seqlens_k [N + 1] -> dq, dk, dv, shaped as q, k and v; 0 for"
            " rows after the last sequence. Any strides."
        ),
        "dtypes": (
            "dout is f32, f16 or bf16; q, k, v, o and results have dout's dtype; lse and dlse are "
            "f32; offsets are i32 or i64."
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
    "q": "q as passed to flash_attention_varlen_lse",
    "k": "k as passed to flash_attention_varlen_lse",
    "v": "v as passed to flash_attention_varlen_lse",
    "o": "o as returned by flash_attention_varlen_lse",
    "lse": "lse as returned by flash_attention_varlen_lse",
    "dlse": "gradient with respect to lse; 0 if not given",
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
