"""Docstring pieces of the norm operators; the functions themselves are generated from the schemas.

And what arguments mean, and what gradients are made of. Pure data: no imports, nothing computed.
Read next: ops/norm/README.md, python/dlblas/torch/_autograd.py (who reads AUTOGRAD).
"""

DOCS: dict[str, dict[str, str]] = {
    "rms_norm": {
        "summary": "Root-mean-square normalisation of the last dimension.",
        "formula": "y = x · rsqrt(mean_C(x²) + eps) · (weight + weight_offset)",
        "shapes": "x [*T, C], weight [C] -> y [*T, C]; any leading dimensions, any row stride.",
        "dtypes": "x f32, f16 or bf16; weight x's dtype or f32; y x's dtype.",
        "aliasing": "rms_norm_(x, ...) or out=x writes y over x; other overlaps are refused.",
        "numerics": (
            "Squares are summed in f32, blocks of 4096 in f64; one rounding, at the store. "
            "cast_before_weight=True rounds to x's dtype before the weight (Hugging Face's Llama). "
            "Same bits in every run, on any number of threads; inside deterministic() also in any "
            "batch, tuned or not."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": (
            "Zhang and Sennrich, Root Mean Square Layer Normalization, 2019; "
            "weight_offset=1 is Gemma's."
        ),
    },
    "add_rms_norm": {
        "summary": "Adds a residual, keeps the sum, and normalises it.",
        "formula": (
            "h = round(x + residual); residual_out = h; "
            "y = h · rsqrt(mean_C(h²) + eps) · (weight + weight_offset)"
        ),
        "shapes": "x, residual [*T, C], weight [C] -> (y, residual_out) [*T, C]; any row stride.",
        "dtypes": "x f32, f16 or bf16; residual and results x's dtype; weight x's dtype or f32.",
        "aliasing": (
            "add_rms_norm_(x, residual, ...) writes y over x and residual_out over residual; "
            "out=(x, residual) does the same; other overlaps are refused."
        ),
        "numerics": (
            "The sum is made in f32 and rounded to x's dtype; statistics are of the rounded h. "
            "Otherwise as rms_norm. residual_out is exact to the bit."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "The fused form that vLLM and SGLang call between two layers of a transformer.",
    },
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

# Argument -> what it is, in which unit; one name means one thing in all of the family.
ARGUMENTS: dict[str, str] = {
    "x": "rows to normalise; of the gradients, what the forward call normalised",
    "weight": "a factor for each column",
    "residual": "added to x first, in x's unit",
    "dy": "the gradient that arrives at y",
    "dresidual": "the gradient that arrives at residual_out; added to dx",
    "eps": "added to the mean square: x's unit squared",
    "weight_offset": "added to every weight, in its unit",
    "cast_before_weight": "round to x's dtype before the weight is applied",
}

# Operator -> its gradient, as one call of another operator. `saves` and `takes`: the backward
# operator's tensors, out of the forward call's inputs and results, and out of the gradients of its
# results; scalars go by their names. `gives`: the inputs that have a gradient, and which result it
# is. add_rms_norm keeps the rounded sum, a result the caller has anyway, and not the two it was
# made of.
AUTOGRAD: dict[str, dict[str, str | dict[str, str]]] = {
    "rms_norm": {
        "backward": "rms_norm_backward",
        "saves": {"x": "x", "weight": "weight"},
        "takes": {"dy": "y"},
        "gives": {"x": "dx", "weight": "dweight"},
    },
    "add_rms_norm": {
        "backward": "rms_norm_backward",
        "saves": {"x": "residual_out", "weight": "weight"},
        "takes": {"dy": "y", "dresidual": "residual_out"},
        "gives": {"x": "dx", "residual": "dx", "weight": "dweight"},
    },
}
