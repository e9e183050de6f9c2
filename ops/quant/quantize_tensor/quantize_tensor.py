"""Docstring pieces of quantize_tensor. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "quantize_tensor": {
        "summary": (
            "Quantises to 8 bits with one scale for the whole tensor: two launches on a GPU."
        ),
        "formula": "scale = max |x| / largest; q = round(x / scale)",
        "shapes": "x [*T, K] -> q [*T, K], scale []; any leading dimensions, any strides.",
        "dtypes": (
            "x is f32, f16 or bf16; q is f8e4m3 (none, the default; largest value 448), f8e5m2 "
            "(57344) or i8 (127); scale is f32."
        ),
        "aliasing": "Results share no memory with x: any overlap is refused.",
        "numerics": (
            "The scale is a rounded quotient, at least 2^-126; 1 for a tensor of zeros; ue8m0 then "
            "rounds it up to a power of two. q is x / scale, rounded to nearest even, saturating; "
            "within 5 f32 roundings of a tie, q may be either neighbour. NaN and inf propagate to "
            "the tensor's scale: dequantised values are NaN. NaN stays NaN in f8 and becomes 0 in "
            "i8."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "Micikevicius et al., FP8 Formats for Deep Learning, 2022.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "dtype": "dtype of q; f8e4m3 if not given",
    "scale_dtype": "ue8m0 rounds scales up to powers of two; they stay f32",
}
