"""Docstring pieces of rms_norm_backward. Pure data: no imports, nothing computed.

Read next: ops/norm/README.md, ops/norm/norm.py (arguments that the norms share).
"""

DOCS: dict[str, dict[str, str]] = {
    "rms_norm_backward": {
        "summary": "Gradients of rms_norm and add_rms_norm, in x and in the weight.",
        "formula": (
            "r = rsqrt(mean_C(x²) + eps); g = dy · (weight + weight_offset); "
            "dx = r · (g − x·r · mean_C(g · x·r)) + dresidual; dweight = sum_T(dy · x·r)"
        ),
        "shapes": (
            "dy, x, dresidual [*T, C], weight [C] -> dx [*T, C], dweight [C]. For add_rms_norm, x "
            "is its residual_out, dresidual that result's gradient, and dx serves x and residual."
        ),
        "dtypes": "dy f32, f16 or bf16; x, dresidual, dx dy's dtype; weight, dweight that or f32.",
        "aliasing": "Results share no memory with inputs: any overlap is refused.",
        "numerics": (
            "Sums in f32, and in f64 over long runs of them; one rounding, at the store. "
            "cast_before_weight=True: dweight sees x·r rounded, whose derivative is taken as 1. "
            "No atomics: the same bits in every run, on any number of threads; inside "
            "deterministic() dx has them in any batch, tuned or not."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "The derivative of Zhang and Sennrich, 2019; no paper's kernel.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dy": "the gradient that arrives at y",
    "dresidual": "the gradient that arrives at residual_out; added to dx",
}
