"""Docstring pieces of weight_panels. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "weight_panels": {
        "summary": (
            "A linear layer's weight in the order in which CPUs multiply it: packed once, for many "
            "calls of linear_panels."
        ),
        "formula": "panels = the elements of weight, in another order",
        "shapes": (
            "weight [N, K], any strides -> panels [N, K]. Blocks of 512 depths, in them panels of "
            "32 columns, in them depths, those of bf16 in pairs while 32 are left; the last N % 32 "
            "columns stay as they are. The same on every CPU."
        ),
        "dtypes": "weight is f32, f16 or bf16; panels has its dtype, and is for x of this dtype.",
        "aliasing": "panels must not overlap weight.",
        "numerics": "Elements are copied, NaN and all.",
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError; UnsupportedError on a GPU. On error "
            "nothing is written. pack_weight is the same, and marks its result so that it cannot "
            "be taken for a weight or for one of another dtype."
        ),
        "source": "Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {"weight": "of a linear layer, [out_features, in_features]"}

LETTERS: dict[str, str] = {"N": "output features", "K": "input features"}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`pack_weight`, `weight_panels`",
        "a linear layer's weight in panels, packed once for `linear_packed`",
        "one pass",
        "–",
    ),
]
