"""Docstring pieces of layer_norm. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "layer_norm": {
        "summary": "Layer normalisation of the last dimension.",
        "formula": "y = (x − mean_C(x)) · rsqrt(var_C(x) + eps) · weight + bias",
        "shapes": "x [*T, C], weight, bias [C] -> y [*T, C]; any leading dimensions, any strides.",
        "dtypes": "x f32, f16 or bf16; weight and bias x's dtype or f32, each; y x's dtype.",
        "aliasing": "layer_norm_(x, ...) or out=x writes y over x; other overlaps are refused.",
        "numerics": (
            "In f32, one rounding, at the store. The variance is the biased one, of differences to "
            "the mean, which their sum corrects: a large mean costs no digits. Rows with NaN or "
            "inf are NaN; rows whose sums f32 cannot hold are undefined: C · max |x| of 2^126, or "
            "Σ (x − mean)² of 2^208 with eps = 1e-5 (the less, the smaller eps is). "
            "Inside deterministic(), the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; "
            "nothing is written then."
        ),
        "source": "Ba, Kiros and Hinton, Layer Normalization, 2016; torch's layer_norm.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "bias": "added last, one value per column; none: 0",
}
