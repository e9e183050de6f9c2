"""Docstring pieces of moe_align. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "moe_align": {
        "summary": "Sorts the choices of a batch by expert, into blocks of one expert each.",
        "formula": (
            "item t · topk + j goes to expert topk_ids[t, j]; sorted_ids = the items by expert, "
            "ascending within an expert, each expert's items padded to a multiple of block with T "
            "· topk; expert_ids = the expert of each block; num_padded = number of items and "
            "padding"
        ),
        "shapes": (
            "topk_ids [T, topk], any strides -> sorted_ids [T·topk + num_experts·block], "
            "expert_ids [ceil(that / block)], num_padded [1]: sized for the worst case, so nothing "
            "waits for a GPU. From num_padded on, sorted_ids holds T·topk and expert_ids −1. In "
            "Python, tokens may have more leading dimensions."
        ),
        "dtypes": "topk_ids is i32 or i64; results are i32.",
        "aliasing": "Results share no memory with topk_ids.",
        "numerics": (
            "Exact, and always in the same order. An item whose id is −1 (dropped, or on another "
            "rank), or any other that is not an expert, is left out."
        ),
        "errors": (
            "ShapeMismatchError (also for a block of 0), UnsupportedDtypeError, DeviceError; "
            "ArgumentError above 2^31 − 1 places."
        ),
        "source": "Gale et al., MegaBlocks, 2022; as in moe_align_block_size of vLLM and SGLang.",
    },
}

TOKENS = "T"  # calls from Python may have several dimensions in its place: [B, S]

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "topk_ids": "experts of each token; −1: none",
    "num_experts": "number of local experts",
    "block": "rows per block of the products that follow",
}
