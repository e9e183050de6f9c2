"""Docstring pieces of moe_unpermute. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "moe_unpermute": {
        "summary": "Sums the outputs of each token's experts, from rows grouped by expert.",
        "formula": "y[t] = Σ_j topk_weights[t, j] · rows[inverse[t, j]]",
        "shapes": (
            "rows [R, C], inverse and topk_weights [T, topk], any strides -> y [T, C]; inverse is "
            "moe_permute's. In Python, tokens may have more leading dimensions."
        ),
        "dtypes": (
            "rows is f32, f16 or bf16, y has rows' dtype; inverse is i32 or i64; topk_weights is "
            "f32 or has rows' dtype."
        ),
        "aliasing": "y shares no memory with inputs.",
        "numerics": (
            "Adds in f32 from the first choice to the last and rounds once, at the store. A "
            "negative position adds nothing; a token without positions gets zeros. Inside "
            "deterministic(), results have the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. CPUs refuse a "
            "position of R or above; on GPUs it adds nothing."
        ),
        "source": "Gale et al., MegaBlocks, 2022; moe_unpermute of vLLM.",
    },
}

TOKENS = "T"  # calls from Python may have several dimensions in its place: [B, S]

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "rows": "outputs of the experts, grouped as by moe_permute",
    "inverse": "row of each choice; −1: none",
    "topk_weights": "weight of each choice",
}

AUTOGRAD = {"moe_unpermute": {"formula": "moe_gradient", "second": "formula"}}
