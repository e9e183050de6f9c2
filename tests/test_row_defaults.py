"""The default configurations of row kernels on an H200, wherever a search has shown the best: they
follow from registers, residency and bytes in flight, so a change of any rule shows here.

No GPU is needed. Times: docs/notes/row_kernels.md. Read next: src/kernels/rows_cuda_default.cpp.
"""

from __future__ import annotations

from typing import Any

import pytest
from dlblas import _specs, tuning

GATED = {"weight": True, "z": True, "norm_before_gate": False, "is_rms_norm": True}
GROUPED = {"weight": True, "bias": True, "activation": "silu"}
AFFINE = {"weight": True, "bias": True}

# operator, sizes, arguments, implementation, configuration
BEST: list[tuple[str, dict[str, int], dict[str, Any], str, str]] = [
    # The row is in the registers of a block; several rows per block.
    ("softmax", {"T": 16384, "C": 4096}, {}, "cuda_registers", "threads=128 vectors=4 rows=4"),
    ("softmax", {"T": 4096, "C": 8192}, {}, "cuda_registers", "threads=512 vectors=2 rows=1"),
    ("softmax", {"T": 131072, "C": 128}, {}, "cuda_registers", "threads=8 vectors=2 rows=16"),
    ("rms_norm", {"T": 16384, "C": 4096}, {}, "cuda_registers", "threads=128 vectors=4 rows=4"),
    ("layer_norm", {"T": 16384, "C": 4096}, AFFINE, "cuda_registers", "threads=128 vectors=4"),
    # Four accesses per thread would leave 768 threads resident; one leaves them all.
    ("layernorm_gated_rows", {"T": 16384, "C": 4096, "groups": 1}, GATED, "cuda_registers",
     "threads=512 vectors=1 rows=1"),
    # 8-bit codes: more accesses in flight.
    ("silu_and_mul_quant_static", {"T": 16384, "F": 4096}, {}, "cuda_registers",
     "threads=128 vectors=4"),
    ("silu_and_mul", {"T": 16384, "F": 11264}, {}, "cuda_registers", "threads=352 vectors=1"),
    # Two accesses share the data of a token, unless their registers cost as much residency.
    ("rope", {"T": 16384, "H": 32, "Dh": 64, "Dn": 0, "Hkv": 8, "P": 32768}, {"positions": "i64"},
     "cuda_registers", "threads=160 vectors=2"),
    ("partial_rotary_heads", {"T": 4096, "H": 128, "Dn": 128, "Dh": 32, "Dv": 128}, {},
     "cuda_registers", "threads=160 vectors=1"),
    # The smallest cluster whose blocks fit four per multiprocessor.
    ("softmax", {"T": 256, "C": 262144}, {}, "cuda_cluster", "threads=256 vectors=8 cluster=16"),
    ("softmax", {"T": 1024, "C": 65536}, {}, "cuda_cluster", "threads=256 vectors=8 cluster=4"),
    ("layer_norm", {"T": 1024, "C": 65536}, AFFINE, "cuda_cluster",
     "threads=128 vectors=16 cluster=4"),
    # Persistent blocks of two rows, 128 threads each, one more row in flight.
    ("layer_norm_backward", {"T": 16384, "C": 4096}, {"weight": True}, "cuda_folded",
     "threads=128 vectors=4 rows=2 blocks=1 ahead=1"),
    ("layernorm_gated_backward", {"T": 16384, "C": 4096, "groups": 1}, GATED, "cuda_folded",
     "threads=512 vectors=1 rows=1 blocks=1 ahead=2"),
    ("layernorm_gated_backward", {"T": 131072, "C": 512, "groups": 8}, GATED, "cuda_folded",
     "threads=32 vectors=2 rows=8 blocks=2 ahead=1"),
    # Rows over few blocks that leave room for a second one.
    ("group_norm_backward", {"T": 256, "C": 40960, "groups": 32, "inner": 4096}, GROUPED,
     "cuda_cluster", "threads=256 vectors=6 cluster=4"),
]  # fmt: skip
BLOCKS = {
    ("softmax", 262144): 4,
    ("softmax", 65536): 4,
    ("layer_norm", 65536): 4,
    ("layernorm_gated_rows", 4096): 4,
    ("silu_and_mul_quant_static", 4096): 10,
}


@pytest.mark.parametrize(("op", "dims", "args", "implementation", "config"), BEST)
def test_a_default_is_what_was_measured_best(
    op: str, dims: dict[str, int], args: dict[str, Any], implementation: str, config: str
) -> None:
    row = _specs.operator_row(op)[0]
    device = _specs.choose_device("sm_90a", absent=True)
    dtypes = {"": "bf16"}
    named = _specs.named_arguments(row, dims, dtypes, args, device)
    found = {c["implementation"]: c for c in tuning.explain(op, **named).as_dict()["candidates"]}
    chosen = found[implementation]["config"]
    assert f"{chosen} ".startswith(f"{config} "), chosen
    blocks = BLOCKS.get((op, dims.get("C", dims.get("F", 0))))
    assert blocks is None or chosen.endswith(f" blocks={blocks}"), chosen
