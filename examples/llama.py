"""A Llama that uses dlblas operators all the way from the embedding to the logits: prefill, then
decoding with a paged cache.

Weights are random and generated at start-up (`Llama.take` copies those of a Hugging Face model).
Prints the time to the first token and tokens per second, both next to the same model in torch, and
each operator's share of a step. On a GPU a step is a CUDA graph; without one the model is small.

    python examples/llama.py [--layers 32] [--hidden 4096] [--batch 1 16 64] [--no-compile]
"""

from __future__ import annotations

import argparse
import collections
import time
from typing import Any, NamedTuple

import dlblas
import torch
from torch.nn import functional


class Shape(NamedTuple):
    """The model's dimensions; the defaults are those of Llama-3-8B."""

    layers: int = 32
    hidden: int = 4096
    heads: int = 32
    kv_heads: int = 8
    feed_forward: int = 14336
    vocabulary: int = 128256
    theta: float = 500000.0
    eps: float = 1e-5

    @property
    def head(self) -> int:
        return self.hidden // self.heads


class Cache:
    """Pages of keys and values for each layer; a sequence's pages are in random order."""

    def __init__(self, shape: Shape, batch: int, tokens: int, page: int, **where: Any) -> None:
        each = -(-tokens // page)
        pages = (batch * each, page, shape.kv_heads, shape.head)
        self.page = page
        self.k, self.v = ([torch.zeros(pages, **where) for _ in range(shape.layers)] for _ in "kv")
        order = torch.randperm(batch * each, device=where["device"], dtype=torch.int32)
        self.table = order.view(batch, each)
        self.lengths = torch.zeros(batch, device=where["device"], dtype=torch.int32)

    def slots(self, sequences: Any, positions: Any) -> Any:
        """The slot of each sequence's token: page · page size + offset in the page."""
        pages = self.table[sequences, (positions // self.page).long()]
        return pages * self.page + positions % self.page


class Llama:
    """The model; if `record` is a list, every operator call is appended to it."""

    def __init__(self, shape: Shape, tokens: int, dtype: Any, device: str) -> None:
        self.shape, self.dtype, self.device = shape, dtype, device
        c, f, wide = (
            shape.hidden,
            shape.feed_forward,
            (shape.heads + 2 * shape.kv_heads) * shape.head,
        )
        self.embedding, self.head = self.made(shape.vocabulary, c), self.made(shape.vocabulary, c)
        self.qkv, self.o = self.stack(wide, c), self.stack(c, shape.heads * shape.head)
        self.gate_up, self.down = self.stack(2 * f, c), self.stack(c, f)
        ones = torch.ones(2 * shape.layers + 1, c, dtype=dtype, device=device)
        self.norms = list(ones.unbind())
        places = torch.arange(0, shape.head, 2, device=device) / shape.head
        angles = torch.outer(torch.arange(tokens, device=device), shape.theta**-places)
        self.rotation = torch.cat([angles.cos(), angles.sin()], -1)
        self.record: list[Any] | None = None

    def made(self, *size: int) -> Any:
        return torch.randn(*size, dtype=self.dtype, device=self.device) * size[-1] ** -0.5

    def stack(self, *size: int) -> list[Any]:
        return [self.made(*size) for _ in range(self.shape.layers)]

    def take(self, model: Any) -> None:
        """Takes a LlamaForCausalLM's weights; projections of the same input are concatenated."""
        self.embedding, self.head = model.model.embed_tokens.weight, model.lm_head.weight
        for i, layer in enumerate(model.model.layers):
            a, m = layer.self_attn, layer.mlp
            self.qkv[i] = torch.cat([a.q_proj.weight, a.k_proj.weight, a.v_proj.weight])
            self.gate_up[i] = torch.cat([m.gate_proj.weight, m.up_proj.weight])
            self.o[i], self.down[i] = a.o_proj.weight, m.down_proj.weight
            self.norms[2 * i] = layer.input_layernorm.weight
            self.norms[2 * i + 1] = layer.post_attention_layernorm.weight
        self.norms[-1] = model.model.norm.weight

    def call(self, name: str, *given: Any, **more: Any) -> Any:
        operator = getattr(dlblas, name)
        if self.record is not None:
            self.record.append((name, operator, given, more))
        return operator(*given, **more)

    def linear(self, x: Any, weight: Any) -> Any:
        return self.call("matmul", x, weight.t())

    def forward(
        self, tokens: Any, positions: Any, slots: Any, cache: Cache, attend: Any, last: Any = None
    ) -> Any:
        """Logits of all tokens, or of those in `last`; stores keys and values in the cache."""
        shape = self.shape
        heads = [shape.heads, shape.kv_heads, shape.kv_heads]
        x, residual = self.embedding[tokens], None
        for i in range(shape.layers):
            x, residual = self.norm(x, residual, 2 * i)
            q, k, v = (
                self.linear(x, self.qkv[i]).unflatten(-1, (-1, shape.head)).split(heads, dim=1)
            )
            self.call("rope_", q, k, positions, self.rotation)
            self.call("store_kv_cache", k, v, cache.k[i], cache.v[i], slots)
            x = self.linear(attend(i, q, k, v).flatten(1), self.o[i])
            x, residual = self.norm(x, residual, 2 * i + 1)
            gated = self.call("gated_linear", x, *self.gate_up[i].chunk(2))
            x = self.linear(gated, self.down[i])
        if last is not None:
            x, residual = x[last], residual[last]
        return self.linear(self.norm(x, residual, 2 * shape.layers)[0], self.head)

    def norm(self, x: Any, residual: Any, i: int) -> Any:
        """The normalised sum of x and residual, and the sum."""
        how = {"eps": self.shape.eps, "cast_before_weight": True}
        if residual is None:
            return self.call("rms_norm", x, self.norms[i], **how), x
        return self.call("add_rms_norm", x, self.norms[i], residual, **how)

    def prefill(self, tokens: Any, cache: Cache, every: bool = False) -> Any:
        """Logits of the last token of each prompt `[B, S]`, or, with `every`, of all tokens."""
        batch, count = tokens.shape
        at = torch.arange(count, device=self.device, dtype=torch.int32).repeat(batch)
        sequences = torch.arange(batch, device=self.device).repeat_interleave(count)
        starts = torch.arange(batch + 1, device=self.device, dtype=torch.int32) * count
        cache.lengths.fill_(count)

        def attend(i: int, q: Any, k: Any, v: Any) -> Any:
            if "flash_attention" in vars(dlblas):
                q, k, v = (x.unflatten(0, (batch, count)) for x in (q, k, v))
                return self.call("flash_attention", q, k, v, causal=True).flatten(0, 1)
            return self.call(
                "paged_attention", q, cache.k[i], cache.v[i], cache.table, cache.lengths,
                cu_seqlens_q=starts,
            )  # fmt: skip

        last = None if every else (starts[1:] - 1).long()
        slots = cache.slots(sequences, at)
        return self.forward(tokens.flatten(), at, slots, cache, attend, last)

    def decode(self, tokens: Any, cache: Cache) -> Any:
        """Logits of one more token `[B]` per sequence. Nothing here waits for a GPU."""
        sequences = torch.arange(len(tokens), device=self.device)
        slots = cache.slots(sequences, cache.lengths)
        positions = cache.lengths.clone()
        cache.lengths.add_(1)

        def attend(i: int, q: Any, k: Any, v: Any) -> Any:
            return self.call(
                "paged_attention", q, cache.k[i], cache.v[i], cache.table, cache.lengths
            )

        return self.forward(tokens, positions, slots, cache, attend)


class Plain:
    """The same model in torch, with scaled_dot_product_attention and a cache of `[B, H, L, D]`."""

    def __init__(self, model: Llama, batch: int, tokens: int) -> None:
        self.model, shape = model, model.shape
        size = (batch, shape.kv_heads, tokens, shape.head)
        where = {"dtype": model.dtype, "device": model.device}
        self.k, self.v = ([torch.zeros(size, **where) for _ in range(shape.layers)] for _ in "kv")

    def rotate(self, x: Any, begin: int) -> Any:
        cos, sin = self.model.rotation[begin : begin + x.shape[2]].to(x.dtype).chunk(2, -1)
        low, high = x.chunk(2, -1)
        return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)

    def forward(self, tokens: Any, begin: int) -> Any:
        """Logits of the last of tokens `[B, S]`, whose positions start at `begin`."""
        m, shape, count = self.model, self.model.shape, tokens.shape[1]
        heads, size = [shape.heads, shape.kv_heads, shape.kv_heads], (shape.hidden,)
        x = m.embedding[tokens]
        for i in range(shape.layers):
            y = functional.rms_norm(x, size, m.norms[2 * i], shape.eps)
            y = (y @ m.qkv[i].t()).unflatten(-1, (-1, shape.head)).transpose(1, 2)
            q, k, v = y.split(heads, dim=1)
            q = self.rotate(q, begin)
            self.k[i][:, :, begin : begin + count] = self.rotate(k, begin)
            self.v[i][:, :, begin : begin + count] = v
            k, v = (t[i][:, :, : begin + count] for t in (self.k, self.v))
            o = functional.scaled_dot_product_attention(
                q, k, v, is_causal=count > 1, enable_gqa=True
            )
            x = x + o.transpose(1, 2).flatten(2) @ m.o[i].t()
            y = functional.rms_norm(x, size, m.norms[2 * i + 1], shape.eps)
            gate, up = (y @ m.gate_up[i].t()).chunk(2, -1)
            x = x + (functional.silu(gate) * up) @ m.down[i].t()
        return functional.rms_norm(x[:, -1], size, m.norms[-1], shape.eps) @ m.head.t()


def seconds(function: Any, device: str, times: int = 5) -> float:
    """The median time of a call; on a GPU, of the call replayed as a CUDA graph."""
    function()
    if device == "cuda":
        function()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            function()
        function = graph.replay
    taken = []
    for _ in range(times):
        if device == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        function()
        if device == "cuda":
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - begin)
    return sorted(taken)[times // 2]


def shares(model: Llama, step: Any) -> str:
    """Each operator's share of a step, measured by timing all of its calls alone."""
    model.record = []
    step()
    recorded, model.record = model.record, None
    calls = collections.defaultdict(list)
    for name, operator, given, more in recorded:
        calls[name].append((operator, given, more))

    def again(name: str) -> None:
        for operator, given, more in calls[name]:
            operator(*given, **more)

    taken = {name: seconds(lambda name=name: again(name), model.device) for name in calls}
    whole = sum(taken.values())
    parts = sorted(taken.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {100 * t / whole:.1f} %" for name, t in parts)


def run(model: Llama, batch: int, prompt: int, compiled: bool) -> None:
    shape, device = model.shape, model.device
    tokens = torch.randint(shape.vocabulary, (batch, prompt), device=device)
    cache = Cache(shape, batch, prompt + 64, 16, dtype=model.dtype, device=device)
    plain = Plain(model, batch, prompt + 64)
    rivals = {"torch": plain.forward}
    if compiled:
        rivals["torch.compile"] = torch.compile(plain.forward, mode="max-autotune-no-cudagraphs")

    first = model.prefill(tokens, cache)
    theirs = plain.forward(tokens, 0)
    off = ((first.double() - theirs.double()).norm() / theirs.double().norm()).item()
    allowed = 1e-4 if model.dtype is torch.float32 else 5e-2
    if not off <= allowed:
        raise SystemExit(f"the models differ: {off:.1e} of the logits; expected {allowed:.0e}")

    print(f"batch {batch}, {prompt} tokens of context; logits differ from torch's by {off:.1e}")
    ours = seconds(lambda: model.prefill(tokens, cache), device)
    beside = [(n, seconds(lambda f=f: f(tokens, 0), device)) for n, f in rivals.items()]
    line = ", ".join(f"{name} {1e3 * t:.2f}" for name, t in beside)
    print(f"  time to first token: {1e3 * ours:.2f} ms ({line})")

    new = tokens[:, -1].contiguous()

    def step() -> None:
        cache.lengths.fill_(prompt)
        model.decode(new, cache).argmax(-1)

    ours = seconds(step, device)
    beside = [
        (n, seconds(lambda f=f: f(new[:, None], prompt).argmax(-1), device))
        for n, f in rivals.items()
    ]
    line = ", ".join(f"{name} {batch / t:.1f}" for name, t in beside)
    print(f"  decode: {batch / ours:.1f} tokens/s ({line})")
    print(f"  of a step: {shares(model, step)}")


def main() -> None:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=32 if gpu else 2)
    parser.add_argument("--hidden", type=int, default=4096 if gpu else 256)
    parser.add_argument("--vocabulary", type=int, default=128256 if gpu else 1024)
    parser.add_argument("--prompt", type=int, default=2048 if gpu else 64)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16, 64] if gpu else [1, 4])
    parser.add_argument(
        "--compile", action=argparse.BooleanOptionalAction, default=gpu,
        help="torch.compile beside; on a CPU only where it is asked for: it takes minutes",
    )  # fmt: skip
    args = parser.parse_args()
    least = min(args.layers, args.vocabulary, args.prompt, *args.batch)
    if least < 1:
        parser.error(f"every size is at least 1, got {least}")
    heads = max(4, args.hidden // 512 * 4)
    if args.hidden < 1 or args.hidden % (2 * heads):
        parser.error(f"--hidden is a multiple of {2 * heads}, got {args.hidden}")
    torch.manual_seed(7)
    shape = Shape(
        args.layers, args.hidden, heads, heads // 4, args.hidden * 7 // 2, args.vocabulary
    )
    dtype, device = (torch.bfloat16, "cuda") if gpu else (torch.float32, "cpu")
    with torch.no_grad():
        model = Llama(shape, args.prompt + 64, dtype, device)
        print(f"{device}, {str(dtype)[6:]}: {shape.layers} layers of {shape.hidden}")
        for batch in args.batch:
            run(model, batch, args.prompt, args.compile)


if __name__ == "__main__":
    main()
