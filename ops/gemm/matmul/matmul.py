"""Docstring pieces of matmul; the function itself is generated from the schema.

Pure data: no imports, nothing computed. Read next: ops/gemm/README.md.
"""

DOCS: dict[str, dict[str, str]] = {
    "matmul": {
        "summary": "Matrix product with bias and activation, in one pass over the result.",
        "formula": "out = act(a · b + bias)",
        "shapes": (
            "a [*M, K], b [K, N], bias [N] -> out [*M, N]; any strides of matrices, so all four "
            "transpose layouts (b = weight.T is the layout of a linear layer). With more "
            "dimensions, the leading ones are rows; C++ and C need one common stride, Python takes "
            "others as a batch with one b. In Python b may have leading dimensions too, which "
            "broadcast with a's, and a and b may be vectors, as in torch.matmul."
        ),
        "dtypes": (
            "a is f32, f16 or bf16; b has a's dtype; bias has a's dtype or f32; out has a's dtype, "
            "or out_dtype: f32, f16 or bf16."
        ),
        "aliasing": "out must not overlap an input; inputs are never written.",
        "numerics": (
            "Products and sums are f32, rounded once at the store; bias and activation act on the "
            "f32 sum. activation: relu, leaky_relu (0.01), gelu (erf), silu. NaN and Inf "
            "propagate, through relu too. Sums are as accurate as NumPy's and stay so as K grows. "
            "The cpu_* implementations give the same bits on any number of threads; inside "
            "deterministic() also in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "a": "left factor",
    "b": "right factor; weight.T of a linear layer, without a copy",
    "activation": "applied to the sum after the bias; empty: none",
    "bias": "added to every row of the product, in the product's units",
    "out_dtype": "dtype of the result; a's if not given",
}

# Its gradient, built from matmul itself: gradient.py.
AUTOGRAD = {"matmul": {"formula": "gradient", "second": "formula"}}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`matmul`, `bmm`",
        "`act(a · b + bias)`, four layouts by strides; also batched",
        "blocked and few-row AMX, AVX-512, AVX2, baseline; oneDNN",
        "WGMMA (Hopper); mma.sync (sm_80 and later); cuBLASLt's algorithms; few-row; IEEE f32",
    ),
]
