"""What the norms with a weight share: arguments, schema letters, rows of docs/all_operators.md.
Text about a single operator is in that operator's folder.

Pure data: no imports, nothing computed. Read next: ops/norm/rms_norm/rms_norm.py.
"""

# Argument -> what it is, in which unit; one name means one thing in all of the family.
ARGUMENTS: dict[str, str] = {
    "x": "rows to normalise; of the gradients, what the forward call normalised",
    "weight": "a factor for each column; none: 1",
    "bias": "added to what the weight has multiplied",
    "eps": "added to the mean square: x's unit squared",
    "weight_offset": "added to every weight, in its unit",
    "cast_before_weight": "round to x's dtype before the weight is applied",
}

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "C": "elements of a row, the normalised width",
    "group": "columns that share a scale",
    "inner": "columns of a channel: elements behind one weight",
}

# Rows of docs/all_operators.md: names, what they compute, on CPUs, on GPUs.
OVERVIEW: list[tuple[str, str, str, str]] = [
    (
        "`rms_norm`, `rms_norm_`",
        "`x · rsqrt(mean_C(x²) + eps) · (weight + weight_offset)`",
        "AVX-512, AVX2, baseline",
        "a row in registers, in shared memory, over a cluster, streamed, split over the "
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
        "`x · scale · (weight + weight_offset)`, a number for each row: a norm whose statistic is "
        "known",
        "AVX-512, AVX2, baseline",
        "registers; any layout",
    ),
    (
        "`rms_norm_backward`",
        "`dx`, `dweight` of both, deterministic",
        "AVX-512, AVX2, baseline",
        "registers; columns for the rest",
    ),
    (
        "`softmax`, `log_softmax`, `…_backward`; `l2_norm`; `cross_entropy`",
        "`exp(x − max_C(x)) / Σ_C exp(x − max_C(x))`, its logarithm; gradients; `x / "
        "max(√Σ_C x², eps)`; the loss of logits, in one read",
        "AVX-512, AVX2, baseline",
        "registers, over a cluster, in shared memory, in passes; any layout",
    ),
    (
        "`layer_norm`, `layer_norm_`, `add_layer_norm`, `layer_norm_backward`; "
        "`group_norm`, `layernorm_gated`",
        "`(x − mean_C(x)) · rsqrt(var_C(x) + eps) · weight + bias`, of `round(x + "
        "residual)`; `dx`, `dweight`, `dbias`, deterministic",
        "as `softmax`",
        "as `softmax`; two kernels that fold rows",
    ),
]
