"""Schema letters of the quantisers, and their row of docs/all_operators.md.

Pure data: no imports, nothing computed.
"""

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "K": "columns: elements per row",
    "N": "rows of a weight matrix",
    "P": "bytes per row, two 4-bit codes each",
    "group": "columns that share a scale",
}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`quantize_token`, `quantize_group`, `quantize_static`, `quantize_tensor`, "
        "`quantize_channel`, `quantize_block128`, `dequantize_group`, `dequantize_channel`; "
        "`quantize`, "
        "`dequantize`; `quantize_mx`, `dequantize_mx`; `rms_norm_quant`, "
        "`add_rms_norm_quant`",
        "`scale = max |x| / largest` per row or group of columns, `q = x / scale` in f8 or i8; "
        'with a given scale; `q · scale`; the same by granularity: `quantize(x, "token")`, '
        '`"group32"`, `"group64"`, `"group128"`, `"tensor"`, `"channel"`, `"block128"`; mxfp8, '
        "mxfp4, nvfp4; norm and f8 codes in one pass",
        "as `softmax`",
        "registers (32, 64, 128 columns per group); any layout and group",
    ),
]
