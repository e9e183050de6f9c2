"""Docstring pieces of l2_norm. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "l2_norm": {
        "summary": "Divides rows by their Euclidean norm.",
        "formula": "y = x / max(sqrt(sum_C(x²)), eps)",
        "shapes": (
            "x [*T, C] -> y [*T, C]; any leading dimensions, any strides. In Python, l2_norm(x, "
            "dim=d) works on another dimension through a transposed view; y has x's layout."
        ),
        "dtypes": "x is f32, f16 or bf16; y has x's dtype.",
        "aliasing": "l2_norm_(x) or out=x writes y over x; other overlaps are refused.",
        "numerics": (
            "As torch.nn.functional.normalize over the last dimension. Squares are summed in f32, "
            "across blocks of 4096 in f64; rows that exceed f32's range in f64. Rounds once, at "
            "the store. Inside deterministic(), results have the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError (eps below 0 or "
            "above 1e30). On error nothing is written."
        ),
        "source": "The Euclidean norm; torch.nn.functional.normalize(x, dim=-1).",
    },
}

OVER_DIM = "C"  # calls from Python may name another dimension in its place: dim=1

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "x": "rows to normalise",
    "eps": "smallest norm to divide by, in x's units",
}

AUTOGRAD = {"l2_norm": {"formula": "gradient", "second": "formula"}}
