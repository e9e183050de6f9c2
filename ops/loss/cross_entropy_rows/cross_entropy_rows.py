"""Docstring pieces of cross_entropy_rows. Pure data: no imports, nothing computed."""

DOCS: dict[str, dict[str, str]] = {
    "cross_entropy_rows": {
        "summary": "Cross entropy of each row of logits, and its log-sum-exp.",
        "formula": (
            "x = softcap · tanh(logits / softcap) where softcap is set; lse = log sum_C exp(x); "
            "loss = (1 − ε) · w_t · (lse − x_t) + ε/C · sum_C w · (lse − x), ε = label_smoothing"
        ),
        "shapes": (
            "logits [*T, C], target [*T], class_weight [C], weight_sum [] -> loss and lse [*T, 1]. "
            "Any leading dimensions, any strides."
        ),
        "dtypes": (
            "logits is f32, f16 or bf16; target is i32 or i64; class_weight, weight_sum and "
            "results are f32."
        ),
        "aliasing": "Results share no memory with inputs: any overlap is refused.",
        "numerics": (
            "Computes in f32, with one read of the logits; subtracts the row's maximum first. A "
            "row whose target is ignore_index has loss 0; any other target below 0, or C and "
            "above, gives NaN. weight_sum is the sum of class_weight, which smoothing needs. "
            "Inside deterministic(), results have the same bits in any batch."
        ),
        "errors": (
            "ShapeMismatchError, UnsupportedDtypeError, DeviceError, ArgumentError "
            "(label_smoothing outside 0 … 1, softcap outside 1e-3 … 1e6, weights without their "
            "sum). On error nothing is written."
        ),
        "source": "Bridle, 1990; Szegedy et al., 2016 (smoothing); the cap is Gemma 2's.",
    },
}

# Argument -> what it is, in which unit.
ARGUMENTS: dict[str, str] = {
    "logits": "rows of logits, one class per column",
    "target": "class of each row",
    "class_weight": "weight per class; 1 if not given",
    "weight_sum": "sum of class_weight; required with it if label_smoothing is set",
    "ignore_index": "target that excludes its row from the loss",
    "label_smoothing": "part of the target that is spread over all classes",
    "softcap": "bound on the magnitude of a logit; 0: no cap",
}

# Its gradient; ops/norm/rms_norm/rms_norm.py explains the four keys.
AUTOGRAD: dict[str, dict[str, str | dict[str, str]]] = {
    "cross_entropy_rows": {
        "backward": "cross_entropy_rows_backward",
        "saves": {
            "logits": "logits", "target": "target", "lse": "lse",
            "class_weight": "class_weight", "weight_sum": "weight_sum",
        },
        "takes": {"dloss": "loss", "dlse": "lse"},
        "gives": {"logits": "dlogits"},
    },
}  # fmt: skip
