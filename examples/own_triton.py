"""A Triton kernel as an implementation of rms_norm: its meta-parameters are the search space."""

import sys

import dlblas
import torch

if not torch.cuda.is_available():
    sys.exit(print("own_triton.py needs a GPU: Triton compiles for one, and there is none here."))
import triton
import triton.language as tl


@triton.jit
def row_norm(x, weight, y, eps, weight_offset, C, BLOCK: tl.constexpr):  # noqa: N803
    row, columns = tl.program_id(0).to(tl.int64) * C, tl.arange(0, BLOCK)
    inside = columns < C
    v = tl.load(x + row + columns, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(v * v) / C + eps)
    w = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32) + weight_offset
    tl.store(y + row + columns, (v * scale * w).to(y.dtype.element_ty), mask=inside)


dlblas.register(
    "rms_norm", "triton_row", row_norm,
    space={"BLOCK": [1024, 2048, 4096, 8192], "num_warps": [2, 4, 8, 16]},
    where="BLOCK >= C and BLOCK < 2 * C + 1024",
    grid=lambda meta: (meta["T"],),
    deterministic=True, capturable=True,
)  # fmt: skip
x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
w = torch.randn(4096, device="cuda", dtype=torch.bfloat16)
print(dlblas.get_op("rms_norm", (x, w), seconds=10).explain())
with dlblas.pinned("rms_norm", "triton_row"):
    y = dlblas.rms_norm(x, w)
print("verified" if dlblas.verify("rms_norm", (x, w), y).ok else "wrong")
