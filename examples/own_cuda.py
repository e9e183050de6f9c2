"""CUDA source text as an implementation of rms_norm: compiled by the library, no toolkit needed."""

import sys

import dlblas
import torch

KERNEL = """
__global__ void row_norm(own::y* y, const own::x* x, const own::weight* w, long T, long C,
                         float eps, float offset, bool cast_before_weight) {
  __shared__ float parts[BLOCK];
  x += blockIdx.x * C, y += blockIdx.x * C;
  float sum = 0;
  for (long i = threadIdx.x; i < C; i += BLOCK) sum += float(x[i]) * float(x[i]);
  parts[threadIdx.x] = sum;
  for (int n = BLOCK / 2; n > 0; n /= 2) {
    __syncthreads();
    if (threadIdx.x < n) parts[threadIdx.x] += parts[threadIdx.x + n];
  }
  __syncthreads();
  const float scale = rsqrtf(parts[0] / C + eps);
  for (long i = threadIdx.x; i < C; i += BLOCK) y[i] = float(x[i]) * scale * (float(w[i]) + offset);
}
"""
dlblas.register(
    "rms_norm", "cuda_text", KERNEL, grid="T", block="BLOCK", space={"BLOCK": [128, 256, 512]},
    supports=lambda p: "rounds once, at the store" if p.scalars["cast_before_weight"] else None,
    deterministic=True, capturable=True,
)  # fmt: skip
if not torch.cuda.is_available():
    sys.exit(print("own_cuda.py needs a GPU to run its kernel, and there is none here."))
x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
w = torch.randn(4096, device="cuda", dtype=torch.bfloat16)
print(dlblas.get_op("rms_norm", (x, w), seconds=5).explain())
with dlblas.pinned("rms_norm", "cuda_text"):
    y = dlblas.rms_norm(x, w)
print("verified" if dlblas.verify("rms_norm", (x, w), y).ok else "wrong")
