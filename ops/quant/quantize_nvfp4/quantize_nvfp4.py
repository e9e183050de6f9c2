"""Docstring pieces of quantize_nvfp4. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "quantize_nvfp4": {
        "summary": "Quantises to NVFP4: e2m1, an e4m3 scale per 16 columns, one f32 scale for all.",
        "formula": (
            "scale = e4m3(max |x| / (6 · global_scale)) of each 16 columns; q = round(x / (scale "
            "· global_scale))"
        ),
        "shapes": (
            "x [*T, K], K even; global_scale [] -> q [*T, K / 2], scale [*T, ceil(K / 16)]; any "
            "strides."
        ),
        "dtypes": (
            "x f32, f16 or bf16; global_scale f32; q u8: two e2m1 per byte, the first in the low "
            "half; scale f8e4m3."
        ),
        "aliasing": "Results share no memory with x: any overlap is refused.",
        "numerics": (
            "Each step is rounded to f32, so all devices have the same bits: scale is e4m3 of "
            "amax / (6 · global_scale), q is e2m1 of x · (1 / (scale · global_scale)), to nearest "
            "even, saturated. A block whose scale is 0 is zeros. NaN makes its block's scale NaN, "
            "and its codes the largest; infinities saturate."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError; nothing is "
            "written then."
        ),
        "source": "NVIDIA, Pretraining Large Language Models with NVFP4, 2025.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "global_scale": "what all scales are multiplied with: max |x| / (6 · 448) of calibration",
}
