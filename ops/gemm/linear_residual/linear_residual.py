"""Docstring pieces of linear_residual. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "linear_residual": {
        "summary": "A linear layer with scales, bias, activation and residual, in one pass.",
        "formula": "y = act(row_scale · column_scale · (x · weightᵀ) + bias) + residual",
        "shapes": (
            "x [*T, K], weight [N, K], bias [N], residual [*T, N], row_scale [*T, 1], column_scale "
            "[N] -> y [*T, N]; any strides of matrices. Of more dimensions, the leading ones are "
            "rows, at one stride. What is not given is left out."
        ),
        "dtypes": (
            "x f32, f16 or bf16; weight x's dtype; bias and residual x's dtype or f32; scales f32; "
            "y x's dtype, or f32, f16, bf16 by out_dtype."
        ),
        "aliasing": (
            "linear_residual_ writes into residual, which it needs; else y overlaps no input. "
            "Other inputs are never written."
        ),
        "numerics": (
            "Products and sums in f32; the sum times row_scale, then column_scale; all the rest in "
            "f32, and one rounding, at the store. activation: relu, leaky_relu (0.01), gelu (erf), "
            "silu. NaN and Inf propagate. The cpu_* implementations give the same bits on any "
            "number of threads; inside deterministic() all do in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "NVIDIA CUTLASS, LinearCombinationResidualBlock, 2022.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "weight": "[out_features, in_features], as torch.nn.Linear keeps it",
    "bias": "added to every row before the activation",
    "residual": "added to the result behind the activation",
    "row_scale": "multiplies a row of the product",
    "column_scale": "multiplies a column of the product: scales of weight's rows",
    "activation": "acts on the scaled sum with the bias; empty: none",
    "out_dtype": "dtype of the result; without it, x's",
}

# Its gradient, built from matmul: gradient.py.
AUTOGRAD = {"linear_residual": {"formula": "gradient", "second": "formula"}}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`linear`, `linear_residual`",
        "`act(row_scale · column_scale · (x · Wᵀ) + bias) + residual`",
        "blocked and few-row AMX, AVX-512, AVX2, baseline; a product of `matmul` and a pass",
        "WGMMA (Hopper); mma.sync (sm_80 and later); few-row; IEEE f32; `matmul` and a pass",
    ),
]
