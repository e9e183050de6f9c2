"""Docstring pieces of flash_attention_rotary. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "flash_attention_rotary": {
        "summary": (
            "Rotates query and key heads by tables, then computes attention and its log-sum-exp."
        ),
        "formula": (
            "q̂_l = q_l · cos_l − q_h · sin_l, q̂_h = q_h · cos_h + q_l · sin_h of pairs (l, h) = "
            "(i, i + D/2), k̂ likewise; s = scale · q̂ · k̂, with softcap: softcap · tanh(s / "
            "softcap); o = Σ_S e^(s − lse) · v, lse = log Σ_S e^s over the keys that a query sees"
        ),
        "shapes": (
            "q [B, S, H, D], k [B, S, Hkv, D], v [B, S, Hkv, Dv], cos and sin [1|B, S, D] or "
            "[1|B, S, D/2], where a column serves both channels of a pair -> o [B, S, H, Dv], lse "
            "[B, H, S]. H = Hkv·G: query head h uses head h // G of k and v. Row s "
            "of the tables rotates query s and key s; D = 2Dh. With causal, a query sees the keys "
            "up to its own position; with a window, only the window keys before it, and as many "
            "after it unless causal. Any strides; a GPU is fastest if rows start at multiples of "
            "16 bytes."
        ),
        "dtypes": (
            "q is f32, f16 or bf16; k, v and o have q's dtype; cos has q's dtype or f32, sin has "
            "cos's dtype; lse is f32."
        ),
        "aliasing": "Results share no memory with arguments.",
        "numerics": (
            "Rotates in f32 and rounds once to q's dtype, as apply_rotary_pos_emb does; then as "
            "flash_attention_lse. cuda_mma rotates q and each block of keys as it loads them, and "
            "writes no rotated values to memory; cuda_wgmma does so with q only, and reads keys "
            "that a first launch has rotated; composed and cuda_composed are two launches, "
            "rotation and flash_attention_lse, and alone read tables of D/2 columns. A search "
            "chooses among them. Every run on one kind of device gives the same bits."
        ),
        "errors": (
            "ShapeMismatchError (an odd D, mismatched tables), UnsupportedDtypeError, DeviceError, "
            "ArgumentError (softcap other than 0 or 1e-3 … 1e6, window below −1). On error nothing "
            "is written."
        ),
        "source": "Su et al., RoFormer, 2021; Dao, FlashAttention-2, 2023.",
    },
}

# Argument -> what it is, in which unit; the others are those of flash_attention_lse.
ARGUMENTS: dict[str, str] = {
    "cos": "cosines of each position's angles, for both channels of every pair",
    "sin": "sines of the same angles, in the same layout",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "B": "sequences",
    "S": "positions per sequence",
    "Hkv": "heads of k and v",
    "G": "query heads per head of k",
    "Dh": "pairs per head of q and k",
    "Dv": "elements per head of v",
}

# Its gradient, built from other operators: gradient.py.
AUTOGRAD: dict[str, dict[str, str]] = {"flash_attention_rotary": {"formula": "gradient"}}

# Row of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`fused_rotary_and_fa` (`flash_attention_rotary`)",
        "rotates q and k by tables, then computes attention; and its gradient",
        "rotation, then attention",
        "mma.sync, rotating q and k as they are loaded; WGMMA (Hopper), rotating q, after a launch "
        "that rotates k; two launches for f32 and any layout",
    ),
]
