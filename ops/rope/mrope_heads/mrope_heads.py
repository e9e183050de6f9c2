"""Docstring pieces of mrope_heads. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "mrope_heads": {
        "summary": "Rotates heads by table rows that three positions per token select.",
        "formula": (
            "[cos | sin] = cos_sin_cache[time] for pairs below first, [height] below second, "
            "[width] from there on; out_l = x_l · cos − x_h · sin, out_h = x_h · cos + x_l · sin "
            "of pairs (l, h): (i, i + Dh) for neox, (2i, 2i + 1) for interleaved, and for "
            "interleaved_to_half (2i, 2i + 1) of x, (i, i + Dh) of out; the last Dn channels are "
            "copied, or left alone in place"
        ),
        "shapes": (
            "q [*T, H, D], k [*T, Hkv, D], time, height and width [*T], cos_sin_cache [P, R] with "
            "R = 2Dh ≤ D = 2Dh + Dn -> q_out [*T, H, D], k_out [*T, Hkv, D]. Any leading "
            "dimensions, any strides."
        ),
        "dtypes": (
            "q is f32, f16 or bf16, k has q's dtype; cos_sin_cache has q's dtype or f32; positions "
            "are i32 or i64. Results have q's dtype."
        ),
        "aliasing": (
            "mrope_heads_(q, k, …) or out=(q, k) writes over q and k; other overlaps are refused."
        ),
        "numerics": (
            "Computes in f32 and rounds once, at the store. Results have the same bits in any "
            "batch."
        ),
        "errors": (
            "ShapeMismatchError (R odd or above D), UnsupportedDtypeError, DeviceError, "
            "ArgumentError (first or second out of order). On error nothing is written. A position "
            "of P or more is an ArgumentError on CPUs; on GPUs it is not checked and reads outside "
            "the table. A token with a negative position is skipped: in place it keeps its values; "
            "in a new result its values are not written and stay whatever the memory held."
        ),
        "source": "Wang et al., Qwen2-VL, 2024.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "time": "position in time: the table row for the first section",
    "height": "row of patches: the table row for the second section",
    "width": "column of patches: the table row for the third section",
    "first": "number of pairs in the first section",
    "second": "number of pairs in the first two sections",
}
