"""Docstring pieces of flash_attention_rotary. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "flash_attention_rotary": {
        "summary": "Rotation of query and key heads by tables, then attention and its log-sum-exp.",
        "formula": (
            "q̂_l = q_l · cos_l − q_h · sin_l, q̂_h = q_h · cos_h + q_l · sin_h of pairs "
            "(l, h) = (i, i + D/2), k̂ alike; s = scale · q̂ · k̂, with softcap: "
            "softcap · tanh(s / softcap); o = Σ_S e^(s − lse) · v, lse = log Σ_S e^s over the keys "
            "that a query sees"
        ),
        "shapes": (
            "q [B, S, H, D], k [B, S, Hkv, D], v [B, S, Hkv, Dv], cos and sin [1|B, S, D] -> "
            "o [B, S, H, Dv], lse [B, H, S]. H = Hkv·G: query head h takes head h // G of k and v. "
            "Row s of the tables turns query s and key s; D = 2Dh. Causal, a query sees the keys "
            "up to its own position; with a window, the window keys before it, and as many after "
            "it unless causal. Any strides; a GPU is fastest on rows at multiples of 16 bytes."
        ),
        "dtypes": (
            "q f32, f16 or bf16; k, v and o q's dtype; cos q's dtype or f32, sin cos's; lse f32."
        ),
        "aliasing": "Results share no memory with arguments.",
        "numerics": (
            "Rotation in f32, rounded to q's dtype once, as apply_rotary_pos_emb does; then as "
            "flash_attention_lse. cuda_mma rotates q and each block of keys on their way into the "
            "kernel, and writes nothing rotated to memory; cuda_wgmma does so with q, and takes "
            "keys that a first launch has rotated; composed and cuda_composed are two launches, "
            "rotation and flash_attention_lse. Which of them serves is searched. On one kind of "
            "device the same bits in every run."
        ),
        "errors": (
            "ShapeMismatchError (an odd D, other tables), UnsupportedDtypeError, DeviceError, "
            "ArgumentError (softcap other than 0 or 1e-3 … 1e6, window below −1); nothing is "
            "written then."
        ),
        "source": "Su et al., RoFormer, 2021; Dao, FlashAttention-2, 2023.",
    },
}

# Argument -> what it is, in which unit; the others are those of flash_attention_lse.
ARGUMENTS: dict[str, str] = {
    "cos": "cosines of each position's angles, for both channels of all pairs",
    "sin": "their sines, laid out alike",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "B": "sequences",
    "S": "positions of a sequence",
    "Hkv": "heads of k and v",
    "G": "query heads of a head of k",
    "Dh": "pairs of a head of q and k",
    "Dv": "elements of a head of v",
}

# Its gradient, built from other operators: gradient.py.
AUTOGRAD: dict[str, dict[str, str]] = {"flash_attention_rotary": {"formula": "gradient"}}

# Row of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`fused_rotary_and_fa` (`flash_attention_rotary`)",
        "rotation of q and k by tables, then attention, and its gradient",
        "rotation, then attention",
        "mma.sync with q and k rotated on their way in; WGMMA (Hopper) with q, behind a launch for "
        "k; two launches, f32 and any layout",
    ),
]
