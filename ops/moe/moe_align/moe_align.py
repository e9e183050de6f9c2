"""Docstring pieces of moe_align. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "moe_align": {
        "summary": "Sorts the choices of a batch by expert, in blocks of one expert each.",
        "formula": (
            "item t · topk + j goes to expert topk_ids[t, j]; sorted_ids = the items by expert, "
            "ascending within one, each expert's padded to a multiple of block with T · topk; "
            "expert_ids = the expert of each block; num_padded = items and padding"
        ),
        "shapes": (
            "topk_ids [T, topk], any strides -> sorted_ids [T·topk + num_experts·block], "
            "expert_ids [ceil(that / block)], num_padded [1]: what a batch could need, so that "
            "nothing waits for a GPU. From num_padded on, sorted_ids hold T·topk, expert_ids −1. "
            "In Python tokens may have more leading dimensions."
        ),
        "dtypes": "topk_ids i32 or i64; results i32.",
        "aliasing": "Results share no memory with topk_ids.",
        "numerics": (
            "Exact, and always in the same order. An id of −1 (dropped, or another rank's), and "
            "any other that is no expert, has no place: its item is left out."
        ),
        "errors": (
            "ShapeMismatchError (a block of 0 too), UnsupportedDtypeError, DeviceError; "
            "ArgumentError above 2^31 − 1 places."
        ),
        "source": "Gale et al., MegaBlocks, 2022; as moe_align_block_size of vLLM and SGLang.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "topk_ids": "experts of each token; −1 is none",
    "num_experts": "experts that there are here",
    "block": "rows of a block of the products that follow",
}
