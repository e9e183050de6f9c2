"""Docstring pieces of quantize_nvfp4. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "quantize_nvfp4": {
        "summary": (
            "Quantises to NVFP4: e2m1, one e4m3 scale per 16 columns, one f32 scale for all."
        ),
        "formula": (
            "scale = e4m3(max |x| / (6 · global_scale)) of each 16 columns; q = round(x / (scale "
            "· global_scale))"
        ),
        "shapes": (
            "x [*T, K], K even; global_scale [] -> q [*T, K / 2], scale [*T, ceil(K / 16)]; any "
            "strides."
        ),
        "dtypes": (
            "x is f32, f16 or bf16; global_scale is f32; q is u8: two e2m1 per byte, the first in "
            "the low half; scale is f8e4m3."
        ),
        "aliasing": "Results share no memory with x: any overlap is refused.",
        "numerics": (
            "Each step is rounded to f32, so all devices give the same bits: scale is e4m3 of amax "
            "/ (6 · global_scale), q is e2m1 of x · (1 / (scale · global_scale)), rounded to "
            "nearest even, saturating. A block whose scale is 0 becomes zeros. NaN makes its "
            "block's scale NaN, and the block's codes the largest value; infinities saturate."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError. On error "
            "nothing is written."
        ),
        "source": "NVIDIA, Pretraining Large Language Models with NVFP4, 2025.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "global_scale": "factor of all scales: max |x| / (6 · 448), from calibration",
}
