"""Docstring pieces of flash_attention_varlen_backward. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "flash_attention_varlen_backward": {
        "summary": "The gradient of flash_attention_varlen_lse in q, k and v.",
        "formula": (
            "of each sequence: P = e^(s − lse), dP = dout · v, δ = Σ_Dv dout · o − dlse, dS = P ·"
            " (dP − δ) · (1 − (c / softcap)²) of the capped c; dq = scale · Σ_k dS · k, dk = "
            "scale · Σ_q dS · q, dv = Σ_q P · dout"
        ),
        "shapes": (
            "dout and o [T, H, Dv], q [T, H, D], k [U, Hkv, D], v [U, Hkv, Dv], lse and dlse [H, "
            "T], cu_seqlens_q and cu_seqlens_k [N + 1] -> dq, dk, dv, shaped as q, k and v; 0 for"
            " rows after the last sequence. Any strides."
        ),
        "dtypes": (
            "dout f32, f16 or bf16; q, k, v, o and results dout's dtype; lse and dlse f32; "
            "offsets i32."
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
    "q": "what flash_attention_varlen_lse was given",
    "k": "what flash_attention_varlen_lse was given",
    "v": "what flash_attention_varlen_lse was given",
    "o": "what flash_attention_varlen_lse returned",
    "lse": "what flash_attention_varlen_lse returned",
    "dlse": "the gradient that arrives at lse; none: 0",
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
