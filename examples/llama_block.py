"""A Llama block with dlblas' norms, compared with the same block in plain torch, with training.

The norms and the residual sums before them are dlblas'; projections are torch's Linear, attention
is torch's scaled_dot_product_attention. Runs on the GPU if there is one.

    python examples/llama_block.py [--hidden 256] [--tokens 128] [--compile]
"""

import argparse
import copy

import dlblas.nn
import torch
from torch import nn
from torch.nn import functional


class EagerRMSNorm(nn.Module):
    """What dlblas.nn.RMSNorm computes, step by step."""

    def __init__(self, dim: int, eps: float = 1e-6, dtype=None, device=None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim, dtype=dtype, device=device))
        self.eps = eps

    def forward(self, x, residual=None):
        if residual is not None:
            x = residual = x + residual
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        y = (h * self.weight.float()).to(x.dtype)
        return y if residual is None else (y, residual)


def rotate(x, cos, sin):
    low, high = x.chunk(2, -1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)


class Block(nn.Module):
    """Takes the last block's output and the residual before it: a norm computes every sum."""

    def __init__(self, norm, hidden: int, heads: int, kv_heads: int, **where) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.dim = heads, kv_heads, hidden // heads
        wide, feed_forward = (heads + 2 * kv_heads) * self.dim, 8 * hidden // 3 // 32 * 32
        self.attention_norm = norm(hidden, 1e-5, **where)
        self.ffn_norm = norm(hidden, 1e-5, **where)
        self.qkv = nn.Linear(hidden, wide, bias=False, **where)
        self.o = nn.Linear(heads * self.dim, hidden, bias=False, **where)
        self.gate_up = nn.Linear(hidden, 2 * feed_forward, bias=False, **where)
        self.down = nn.Linear(feed_forward, hidden, bias=False, **where)

    def attend(self, x, cos, sin):
        q, k, v = (
            part.unflatten(-1, (-1, self.dim)).transpose(1, 2)
            for part in self.qkv(x).split(
                [self.heads * self.dim, self.kv_heads * self.dim, self.kv_heads * self.dim], -1
            )
        )
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o(y.transpose(1, 2).flatten(-2))

    def forward(self, x, residual, cos, sin):
        x, residual = self.attention_norm(x, residual)
        x, residual = self.ffn_norm(self.attend(x, cos, sin), residual)
        gate, up = self.gate_up(x).chunk(2, -1)
        return self.down(functional.silu(gate) * up), residual


def tables(tokens: int, dim: int, dtype, device):
    angles = torch.outer(
        torch.arange(tokens, device=device), 1e4 ** (-torch.arange(0, dim, 2, device=device) / dim)
    )
    return angles.cos().to(dtype), angles.sin().to(dtype)


def step(block, x, residual, cos, sin):
    """One training step's forward and backward: the loss, and every gradient by name."""
    x, residual = x.clone().requires_grad_(), residual.clone().requires_grad_()
    y, sums = block(x, residual, cos, sin)
    loss = (y + sums).float().pow(2).mean()
    loss.backward()
    gradients = {name: p.grad for name, p in block.named_parameters()}
    return y.detach(), loss.detach(), {**gradients, "x": x.grad, "residual": residual.grad}


def difference(a, b) -> float:
    """The relative difference in the Frobenius norm."""
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--compile", action="store_true", help="torch.compile the block as well")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    torch.manual_seed(7)

    shape = (args.hidden, args.heads, args.kv_heads)
    ours = Block(dlblas.nn.RMSNorm, *shape, dtype=dtype, device=device)
    eager = Block(EagerRMSNorm, *shape, dtype=dtype, device=device)
    eager.load_state_dict(copy.deepcopy(ours.state_dict()))  # the same parameters, by name
    x, residual = torch.randn(
        2, args.batch, args.tokens, args.hidden, dtype=dtype, device=device
    ).unbind()
    cos, sin = tables(args.tokens, args.hidden // args.heads, dtype, device)

    # f32 sums differ in order; bf16 rounds every intermediate, in both blocks.
    allowed = 2e-2 if dtype is torch.bfloat16 else 1e-5
    (y, loss, gradients), (y0, loss0, gradients0) = (
        step(block, x, residual, cos, sin) for block in (ours, eager)
    )
    worst = {
        "output": difference(y, y0),
        "loss": difference(loss, loss0),
        "gradients": max(difference(gradients[name], gradients0[name]) for name in gradients0),
    }
    if args.compile:
        compiled = torch.compile(ours, fullgraph=True, dynamic=True)
        with torch.no_grad():
            worst["compiled output"] = difference(compiled(x, residual, cos, sin)[0], y0)
    print(f"{device}, {str(dtype)[6:]}: {len(gradients0)} gradients; relative difference to eager:")
    for name, value in worst.items():
        print(f"  {name:<16} {value:.1e}  (allowed {allowed:.0e})")
    if not max(worst.values()) <= allowed:
        raise SystemExit("the blocks differ")


if __name__ == "__main__":
    main()
