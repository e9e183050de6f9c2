"""Docstring pieces of matmul; the function itself is generated from the schema.

Pure data: no imports, nothing computed. Read next: ops/gemm/README.md.
"""

DOCS: dict[str, dict[str, str]] = {
    "matmul": {
        "summary": "Matrix product with bias and activation, in one pass over the result.",
        "formula": "out = act(a · b + bias)",
        "shapes": (
            "a [*M, K], b [K, N], bias [N] -> out [*M, N]; any strides of matrices, so all four "
            "transpose layouts (b = weight.T is the layout of a linear layer). Of more dimensions, "
            "the leading ones are rows, at one stride; matrices on both sides are a batch, as "
            "dlblas.bmm takes it."
        ),
        "dtypes": (
            "a f32, f16 or bf16; b a's dtype; bias a's dtype or f32; "
            "out a's dtype, or f32, f16, bf16 by out_dtype."
        ),
        "aliasing": "out overlaps no input; inputs are never written.",
        "numerics": (
            "Products and sums in f32, one rounding at the store; bias and activation act on the "
            "f32 sum. activation: relu, leaky_relu (0.01), gelu (erf), silu. NaN and Inf "
            "propagate, through relu too. Sums are as exact as NumPy's and do not lose with K. The "
            "cpu_* implementations give the same bits on any number of threads; inside "
            "deterministic() also in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "a": "the left factor",
    "b": "the right factor; weight.T of a linear layer, without a copy",
    "activation": "acts on the sum with the bias; empty: none",
    "bias": "added to every row of the product, in the product's unit",
    "out_dtype": "dtype of the result; without it, a's",
}

# Its gradient, built from matmul itself: gradient.py.
AUTOGRAD = {"matmul": {"formula": "gradient", "second": "formula"}}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`matmul`, `bmm`",
        "`act(a · b + bias)`, four layouts by strides; of a batch",
        "blocked and few-row AVX-512, AVX2, baseline; oneDNN",
        "WGMMA (Hopper); mma.sync (sm_80 and later); cuBLASLt's list; few-row; IEEE f32",
    ),
]
