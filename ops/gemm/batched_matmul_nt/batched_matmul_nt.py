"""Docstring pieces of batched_matmul_nt. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "batched_matmul_nt": {
        "summary": "Products of the matrices of a batch with bias and activation, in one launch.",
        "formula": "out[b] = act(a[b] · b[b]ᵀ + bias)",
        "shapes": (
            "a [B, M, K], b [B, N, K], bias [N], one for all -> out [B, M, N]; any strides. "
            "dlblas.bmm takes any leading dimensions, and chooses by how b lies."
        ),
        "dtypes": (
            "a f32, f16 or bf16; b a's dtype; bias a's dtype or f32; "
            "out a's dtype, or f32, f16, bf16 by out_dtype."
        ),
        "aliasing": "out overlaps no input; inputs are never written.",
        "numerics": (
            "Those of matmul: products and sums in f32, one rounding at the store; bias and "
            "activation act on the f32 sum."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "torch.bmm.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "a": "the left factors",
    "b": "the right factors",
    "activation": "acts on the sum with the bias; empty: none",
    "bias": "added to every row of the products, in their unit",
    "out_dtype": "dtype of the result; without it, a's",
}

# Its gradient, built from batched products: gradient.py.
AUTOGRAD = {"batched_matmul_nt": {"formula": "gradient", "second": "formula"}}
