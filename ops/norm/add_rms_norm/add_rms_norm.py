"""Docstring pieces of add_rms_norm, and the definition of its gradient.

Pure data: no imports, nothing computed. Read next: ops/norm/norm.py (arguments that the
norms share), python/dlblas/torch/_autograd.py (reads AUTOGRAD).
"""

DOCS: dict[str, dict[str, str]] = {
    "add_rms_norm": {
        "summary": "Adds a residual, keeps the sum, and normalises it.",
        "formula": (
            "h = round(x + residual); residual_out = h; "
            "y = h · rsqrt(mean_C(h²) + eps) · (weight + weight_offset)"
        ),
        "shapes": (
            "x, residual [*T, C], weight [C] -> (y, residual_out) [*T, C]; any row stride. Without "
            "residual, it returns y alone, as rms_norm does. hidden_states= is another name for x."
        ),
        "dtypes": (
            "x is f32, f16 or bf16; residual and results have x's dtype; weight has x's dtype or "
            "f32."
        ),
        "aliasing": (
            "add_rms_norm_(x, residual, ...) writes y over x and residual_out over residual; "
            "out=(x, residual) does the same; other overlaps are refused."
        ),
        "numerics": (
            "The sum is computed in f32 and rounded to x's dtype; statistics use the rounded h. "
            "Otherwise as rms_norm. residual_out is exact to the bit."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "The fused form that vLLM and SGLang call between two layers of a transformer.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "residual": "added to x first, in x's units",
}

# The gradient; ops/norm/rms_norm/rms_norm.py explains the four keys. It saves the rounded sum,
# which the caller holds anyway, instead of the two addends.
AUTOGRAD: dict[str, dict[str, str | dict[str, str]]] = {
    "add_rms_norm": {
        "backward": "rms_norm_backward",
        "saves": {"x": "residual_out", "weight": "weight"},
        "takes": {"dy": "y", "dresidual": "residual_out"},
        "gives": {"x": "dx", "residual": "dx", "weight": "dweight"},
    },
}
