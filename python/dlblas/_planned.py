"""Operators of the contracts that are planned, and what to use until they are here.

Pure data: name -> what comes nearest. Where one exists by now, its row says nothing to anybody.
Used by: _absent.py.
"""

NEAREST = {
    "all_reduce": "torch.distributed.all_reduce, then dlblas.add_rms_norm",
    "bmm_fp8": "dlblas.dequantize, then dlblas.bmm",
    "causal_conv1d": "torch.nn.functional.conv1d with groups=channels, then dlblas.silu",
    "flash_attention_varlen": "torch.nn.functional.scaled_dot_product_attention for each sequence",
    "fused_linear_cross_entropy": "dlblas.matmul, then dlblas.cross_entropy, in blocks of rows",
    "gated_delta_rule": "the fla package's chunk_gated_delta_rule",
    "int8_scaled_mm": "torch._int_mm, or dlblas.dequantize and dlblas.matmul",
    "mla_decode": "torch.nn.functional.scaled_dot_product_attention on the latents",
    "paged_attention": (
        "torch.nn.functional.scaled_dot_product_attention on gathered pages; "
        "dlblas.merge_attention_states joins parts"
    ),
    "rms_norm_linear": "dlblas.rms_norm, then dlblas.matmul",
    "sample": "dlblas.softmax, then torch.multinomial; dlblas.topk_softmax for the largest",
    "scaled_mm": "torch._scaled_mm, or dlblas.dequantize and dlblas.matmul",
}
