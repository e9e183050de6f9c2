"""Docstring pieces of batched_matmul. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "batched_matmul": {
        "summary": "Batched matrix products with bias and activation, in one launch.",
        "formula": "out[b] = act(a[b] · b[b] + bias)",
        "shapes": (
            "a [B, M, K], b [B, K, N], bias [N], one for all -> out [B, M, N]; any strides. "
            "dlblas.bmm takes any leading dimensions and chooses between batched_matmul and "
            "batched_matmul_nt by the layout of b."
        ),
        "dtypes": (
            "a is f32, f16 or bf16; b has a's dtype; bias has a's dtype or f32; out has a's dtype, "
            "or out_dtype: f32, f16 or bf16."
        ),
        "aliasing": "out must not overlap an input; inputs are never written.",
        "numerics": (
            "As matmul: products and sums are f32, rounded once at the store; bias and activation "
            "act on the f32 sum."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "torch.bmm.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "a": "left factors",
    "b": "right factors",
    "activation": "applied to the sum after the bias; empty: none",
    "bias": "added to every row of the product, in the product's units",
    "out_dtype": "dtype of the result; a's if not given",
}

# Its gradient, built from batched products: gradient.py.
AUTOGRAD = {"batched_matmul": {"formula": "gradient", "second": "formula"}}
