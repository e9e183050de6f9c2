"""A torch function as an implementation of rms_norm, and a new operator with its own one: both
are checked against an oracle, tuned, remembered and explained. Runs on the CPU or a GPU."""

import dlblas
import dlblas.torch
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


@dlblas.register("rms_norm", "by_torch", devices=("cpu", "cuda"))
def by_torch(x, weight, eps, weight_offset, y):
    f = x.float()
    y.copy_(f * torch.rsqrt(f.square().mean(-1, keepdim=True) + eps) * (weight + weight_offset))


x, w = torch.randn(64, 512, device=device), torch.randn(512, device=device)
op = dlblas.get_op("rms_norm", (x, w), seconds=2)
print(op.explain())

# A new operator: a schema, and a reference in f64 that every implementation must agree with.
dlblas.register_operator(
    "squared_relu(x: f[*T, C], scale: float = 1.0) -> y: like(x)[*T, C] where T: bucket(tokens)",
    lambda x, scale: (abs(x) + x) ** 2 * (scale / 4),
    formula="y = scale · max(x, 0)²",
)


@dlblas.register("squared_relu", "by_torch", devices=("cpu", "cuda"))
def squared_relu(x, scale, y):
    y.copy_(torch.relu(x.float()).square_().mul_(scale))


dlblas.tune("squared_relu", (x,), seconds=1)
print(dlblas.explain("squared_relu", x))
y = torch.ops.dlblas.squared_relu(x, 0.5)  # torch.compile traces it: it has a fake
print("verified" if dlblas.verify("squared_relu", (x,), y, {"scale": 0.5}).ok else "wrong")
