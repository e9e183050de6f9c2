"""What the norms with a weight share: arguments, schema letters, rows of docs/all_operators.md.
Text about a single operator is in that operator's folder.

Pure data: no imports, nothing computed. Read next: ops/norm/rms_norm/rms_norm.py.
"""

# Argument -> what it is, in which unit; one name means one thing in all of the family.
ARGUMENTS: dict[str, str] = {
    "x": "rows to normalise; for gradients, the rows that the forward call normalised",
    "weight": "factor per column; 1 if not given",
    "bias": "added after the weight",
    "eps": "added to the mean square, or to the variance, in units of x squared",
    "weight_offset": "added to every weight, in the weight's units",
    "cast_before_weight": "if true, round to x's dtype before applying the weight",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "C": "elements per row: the normalised width",
    "group": "columns that share a scale",
    "inner": "columns per channel: elements that share a weight",
    "groups": "rows after which weights repeat: row t has those of row t % groups",
}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`rms_norm`, `rms_norm_`",
        "`x · rsqrt(mean_C(x²) + eps) · (weight + weight_offset)`",
        "AVX-512, AVX2, baseline",
        "a row in registers, in shared memory, across a cluster, streamed, or split across the "
        "grid; any layout",
    ),
    (
        "`add_rms_norm`, `add_rms_norm_`",
        "`h = round(x + residual)`, `rms_norm(h)`; returns `(y, h)`",
        "as `rms_norm`",
        "as `rms_norm`",
    ),
    (
        "`scale_rows`, `scale_rows_`",
        "`x · scale · (weight + weight_offset)`, one scale per row: a norm whose statistic is "
        "known",
        "AVX-512, AVX2, baseline",
        "registers; any layout",
    ),
    (
        "`rms_norm_backward`",
        "`dx` and `dweight` of `rms_norm` and `add_rms_norm`, deterministic",
        "AVX-512, AVX2, baseline",
        "registers; a column kernel for other cases",
    ),
    (
        "`softmax`, `log_softmax`, `…_backward`; `l2_norm`; `cross_entropy`",
        "`exp(x − max_C(x)) / Σ_C exp(x − max_C(x))`, its logarithm; gradients; `x / max(√Σ_C x², "
        "eps)`; the cross entropy of logits, in one read",
        "AVX-512, AVX2, baseline",
        "in registers, across a cluster, in shared memory, in passes; any layout",
    ),
    (
        "`layer_norm`, `layer_norm_`, `add_layer_norm`, `layer_norm_backward`; "
        "`group_norm`, `layernorm_gated`, `group_norm_backward`, `layernorm_gated_backward`",
        "`(x − mean_C(x)) · rsqrt(var_C(x) + eps) · weight + bias`, also of `round(x + residual)`; "
        "`dx`, `dweight`, `dbias`, deterministic",
        "as `softmax`",
        "as `softmax`; two kernels that fold rows",
    ),
]
