"""Docstring pieces of linear_panels. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "linear_panels": {
        "summary": "A linear layer whose weight was packed beforehand, on CPUs.",
        "formula": "y = act(x · weightᵀ + bias), panels = weight_panels(weight)",
        "shapes": (
            "x [*M, K], panels [N, K] as weight_panels returns it, bias [N] -> y [*M, N]; x and y "
            "of any strides whose leading dimensions have one in common. A slice of panels is no "
            "packed weight."
        ),
        "dtypes": (
            "x is f32, f16 or bf16; panels has x's dtype; bias has x's dtype or f32; y has x's "
            "dtype, or out_dtype."
        ),
        "aliasing": "y must not overlap an input; inputs are never written.",
        "numerics": (
            "As matmul's blocked implementations of the same instruction set, whose bits it has: "
            "f32 products and sums, rounded once. Products of f16, and of bf16 without a unit for "
            "it, widen panels as they go. The same bits on any number of threads; inside "
            "deterministic() also in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, ArgumentError (also for panels that are "
            "not contiguous); UnsupportedError on a GPU: use linear there. On error nothing is "
            "written. No gradient."
        ),
        "source": "Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "x": "rows of input features",
    "panels": "what weight_panels returned",
    "activation": "applied to the sum after the bias; empty: none",
    "bias": "added to every row of the product, in the product's units",
    "out_dtype": "dtype of the result; x's if not given",
}

LETTERS: dict[str, str] = {"M": "rows of x", "N": "output features", "K": "input features"}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`linear_packed`, `linear_panels`",
        "`act(x · Wᵀ + bias)` with a weight that was packed beforehand",
        "blocked AMX, AVX-512, AVX2, baseline, from panels",
        "–",
    ),
]
