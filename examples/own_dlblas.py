"""Registration as in DLBlas: symbolic arguments, a search space, a call that returns its result.
Runs on the CPU; with device="cuda" and a Triton kernel as the last argument, the space is that
kernel's."""

import dlblas
import torch
from dlblas.utils import ChoiceSpace, DictSpace, SymVar, Tensor, get_op, register_dlblas_op


def call(a, b, columns):
    """The product, computed in blocks of columns."""
    return torch.cat([a @ part for part in b.split(columns, dim=1)], dim=1)


def bench_fn(a, b):
    """DLBlas times a call with this; here the library measures, and never calls this."""


m, n, k = SymVar("m"), SymVar("n"), SymVar("k")
for dtype in (torch.float32, torch.bfloat16):
    a = Tensor((m, k), dtype=dtype, device="cpu")
    b = Tensor((k, n), dtype=dtype, device="cpu")
    space = DictSpace(columns=ChoiceSpace([64, 128, 512]))
    register_dlblas_op("matmul", space, (a, b), call, bench_fn, None)

a, b = torch.randn(64, 256), torch.randn(256, 512)
op = get_op("matmul", (a, b), seconds=4)
print(op.explain())
torch.testing.assert_close(op(a, b), a @ b, rtol=1e-4, atol=1e-4)
print("verified" if dlblas.verify("matmul", (a, b), op(a, b)).ok else "wrong")
