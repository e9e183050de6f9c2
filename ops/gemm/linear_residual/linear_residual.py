"""Docstring pieces of linear_residual. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "linear_residual": {
        "summary": "A linear layer with scales, bias, activation and residual, in one pass.",
        "formula": "y = act(row_scale · column_scale · (x · weightᵀ) + bias) + residual",
        "shapes": (
            "x [*T, K], weight [N, K], bias [N], residual [*T, N], row_scale [*T, 1], "
            "column_scale [N] -> y [*T, N]; any strides of matrices. With more dimensions, the "
            "leading ones are rows; C++ and C need one common stride, Python copies others. "
            "Arguments that are not given are skipped."
        ),
        "dtypes": (
            "x is f32, f16 or bf16; weight has x's dtype; bias and residual have x's dtype or f32; "
            "scales are f32; y has x's dtype, or out_dtype: f32, f16 or bf16."
        ),
        "aliasing": (
            "linear_residual_ requires residual and writes y into it; otherwise y must not overlap "
            "an input. Other inputs are never written."
        ),
        "numerics": (
            "Products and sums are f32; the sum is multiplied by row_scale, then by column_scale; "
            "all other steps are f32 too, with one rounding, at the store. activation: relu, "
            "leaky_relu (0.01), gelu (erf), silu. NaN and Inf propagate. The cpu_* implementations "
            "give the same bits on any number of threads; inside deterministic() all "
            "implementations do in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "NVIDIA CUTLASS, LinearCombinationResidualBlock, 2022.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "weight": "[out_features, in_features], as in torch.nn.Linear",
    "bias": "added to every row before the activation",
    "residual": "added after the activation",
    "row_scale": "factor per row of the product",
    "column_scale": "factor per column of the product: scales of weight's rows",
    "activation": "applied to the scaled sum after the bias; empty: none",
    "out_dtype": "dtype of the result; x's if not given",
}

# Its gradient, built from matmul: gradient.py.
AUTOGRAD = {"linear_residual": {"formula": "gradient", "second": "formula"}}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`linear`, `linear_residual`",
        "`act(row_scale · column_scale · (x · Wᵀ) + bias) + residual`",
        "blocked and few-row AMX, AVX-512, AVX2, baseline; oneDNN; `matmul`, then a separate pass",
        "WGMMA (Hopper); mma.sync (sm_80 and later); few-row; IEEE f32; `matmul`, then a separate "
        "pass",
    ),
]
