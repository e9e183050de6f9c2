"""Docstring pieces of rms_norm_backward. Pure data: no imports, nothing computed.

Read next: ops/norm/README.md, ops/norm/norm.py (arguments that the norms share).
"""

DOCS: dict[str, dict[str, str]] = {
    "rms_norm_backward": {
        "summary": "Gradients of rms_norm and add_rms_norm with respect to x and the weight.",
        "formula": (
            "r = rsqrt(mean_C(x²) + eps); g = dy · (weight + weight_offset); "
            "dx = r · (g − x·r · mean_C(g · x·r)) + dresidual; dweight = sum_T(dy · x·r)"
        ),
        "shapes": (
            "dy, x, dresidual [*T, C], weight [C] -> dx [*T, C], dweight [C]. For add_rms_norm, x "
            "is its residual_out, dresidual is the gradient of that result, and dx is the gradient "
            "of both x and residual."
        ),
        "dtypes": (
            "dy is f32, f16 or bf16; x, dresidual and dx have dy's dtype; weight and dweight have "
            "dy's dtype or f32."
        ),
        "aliasing": "Results share no memory with inputs: any overlap is refused.",
        "numerics": (
            "Sums are f32, and f64 over long runs of them; each result is rounded once, at the "
            "store. With cast_before_weight=True, dweight uses the rounded x·r, and the derivative "
            "of that rounding is taken as 1. No atomics: the same bits in every run, on any number "
            "of threads; inside deterministic(), dx has the same bits in any batch, tuned or not."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "Derivative of Zhang and Sennrich, 2019; not from a paper.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "gradient with respect to y",
    "dresidual": "gradient with respect to residual_out; added to dx",
}
