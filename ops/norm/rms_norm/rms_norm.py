"""Docstring pieces of rms_norm, and the definition of its gradient.

Pure data: no imports, nothing computed. Read next: ops/norm/norm.py (arguments that the
norms share), python/dlblas/torch/_autograd.py (reads AUTOGRAD).
"""

DOCS: dict[str, dict[str, str]] = {
    "rms_norm": {
        "summary": "Root-mean-square normalisation of the last dimension.",
        "formula": "y = x · rsqrt(mean_C(x²) + eps) · (weight + weight_offset)",
        "shapes": "x [*T, C], weight [C] -> y [*T, C]; any leading dimensions, any row stride.",
        "dtypes": "x is f32, f16 or bf16; weight has x's dtype or f32; y has x's dtype.",
        "aliasing": "rms_norm_(x, ...) or out=x writes y over x; other overlaps are refused.",
        "numerics": (
            "Squares are summed in f32, across blocks of 4096 in f64. Rounds once, at the store; "
            "cast_before_weight=True also rounds to x's dtype before the weight, as Hugging Face's "
            "Llama does. The same bits in every run, on any number of threads; inside "
            "deterministic() also in any batch, tuned or not."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": (
            "Zhang and Sennrich, Root Mean Square Layer Normalization, 2019; "
            "weight_offset=1 is Gemma's."
        ),
    },
}

HINTS: dict[str, str] = {"weight": "leave normalized_shape out: rms_norm(x, weight)"}

# The gradient, as one call of another operator, `backward`. `saves` maps its tensors to inputs and
# results of the forward call; `takes` maps its tensors to the forward results whose gradients they
# are; scalars are matched by name. `gives` maps each input with a gradient to a backward result.
AUTOGRAD: dict[str, dict[str, str | dict[str, str]]] = {
    "rms_norm": {
        "backward": "rms_norm_backward",
        "saves": {"x": "x", "weight": "weight"},
        "takes": {"dy": "y"},
        "gives": {"x": "dx", "weight": "dweight"},
    },
}
