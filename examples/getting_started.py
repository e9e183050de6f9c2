"""DLBlas' getting-started example, as its users wrote it: ask for an operator, then call it.

Needs torch. The first run measures the candidates for at most ten seconds and remembers the
winner.
"""

import torch
from dlblas.utils import get_op

a = torch.randn((384, 512), dtype=torch.float16)
b = torch.randn((512, 256), dtype=torch.float16)
matmul = get_op('matmul', (a, b))
out = matmul(a, b)

print(matmul.explain())
print("largest difference to torch:", (out - a @ b).abs().max().item())
