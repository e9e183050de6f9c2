"""The demo's small Llama on a CPU, on NumPy arrays with a paged cache. From the embedding to the
logits it runs our operators, except for each layer's last sum, which is NumPy's.

In: JSON on stdin {quick, result}. Out: a text report on stdout, and a JSON file: milliseconds to
the first token, tokens per second, each operator's share, and the largest difference between the
logits of decoding and those of one prefill over the same tokens. examples/llama.py is the complete
model, in torch.
"""

from __future__ import annotations

import collections
import json
import sys
import time
from typing import Any, NamedTuple

import numpy as np

import dlblas

_PAGE = 16
_LARGEST_ERROR = 1e-4  # of logits of size 1, in f32: sums of 512 to 1408 terms in another order


class Shape(NamedTuple):
    layers: int = 4
    hidden: int = 512
    heads: int = 8
    kv_heads: int = 2
    feed_forward: int = 1408
    vocabulary: int = 8192
    prompt: int = 128
    new: int = 32

    @property
    def head(self) -> int:
        return self.hidden // self.heads


class Llama:
    """One sequence; weights are random."""

    def __init__(self, shape: Shape) -> None:
        self.shape = s = shape
        self.random = np.random.default_rng(0)
        wide = (s.heads + 2 * s.kv_heads) * s.head
        self.embedding = self.made(s.vocabulary, s.hidden)
        self.out = self.made(s.vocabulary, s.hidden)
        self.layers = [
            {
                "qkv": self.made(wide, s.hidden),
                "o": self.made(s.hidden, s.heads * s.head),
                "gate_up": self.made(2 * s.feed_forward, s.hidden),
                "down": self.made(s.hidden, s.feed_forward),
            }
            for _ in range(s.layers)
        ]
        self.ones = np.ones(s.hidden, np.float32)
        tokens = s.prompt + s.new
        places = np.arange(0, s.head, 2) / s.head
        angles = np.outer(np.arange(tokens), 500000.0**-places)
        self.rotation = np.concatenate([np.cos(angles), np.sin(angles)], -1).astype(np.float32)
        pages = (-(-tokens // _PAGE), _PAGE, s.kv_heads, s.head)
        self.caches = [[np.zeros(pages, np.float32) for _ in "kv"] for _ in range(s.layers)]
        self.table = self.random.permutation(pages[0]).astype(np.int32)[None]  # in any order
        self.seconds: dict[str, float] = collections.defaultdict(float)

    def made(self, *size: int) -> Any:
        weights = self.random.standard_normal(size, dtype=np.float32)
        return weights * np.float32(size[-1] ** -0.5)

    def call(self, name: str, *given: Any, **more: Any) -> Any:
        begin = time.perf_counter()
        result = getattr(dlblas, name)(*given, **more)
        self.seconds[name] += time.perf_counter() - begin
        return result

    def forward(self, tokens: Any, first: int) -> Any:
        """Logits of the new tokens; ``first`` is the position of the first one."""
        s, count = self.shape, len(tokens)
        positions = np.arange(first, first + count)
        slots = self.table[0, positions // _PAGE].astype(np.int64) * _PAGE + positions % _PAGE
        where = {
            "page_table": self.table,
            "seq_lens": np.array([first + count], np.int32),
            "cu_seqlens_q": np.array([0, count], np.int32),
        }
        x = self.embedding[tokens]
        for layer, (k_cache, v_cache) in zip(self.layers, self.caches, strict=True):
            y = self.call("rms_norm", x, self.ones)
            heads = self.call("linear", y, layer["qkv"]).reshape(count, -1, s.head)
            q, k, v = np.split(heads, [s.heads, s.heads + s.kv_heads], axis=1)
            self.call("rope_", q, k, positions, self.rotation)
            self.call("store_kv_cache", k, v, k_cache, v_cache, slots)
            o = self.call("paged_attention", q, k_cache, v_cache, **where)
            o = self.call("linear", o.reshape(count, -1), layer["o"])
            y, x = self.call("add_rms_norm", o, self.ones, x)
            y = self.call("silu_and_mul", self.call("linear", y, layer["gate_up"]))
            x = x + self.call("linear", y, layer["down"])
        return self.call("linear", self.call("rms_norm", x, self.ones), self.out)


def run(quick: bool) -> dict[str, Any]:
    shape = Shape(1, 64, 4, 2, 96, 128, 9, 4) if quick else Shape()
    model = Llama(shape)
    prompt = model.random.integers(shape.vocabulary, size=shape.prompt)
    for _ in range(2):  # the first makes plans
        begin = time.perf_counter()
        logits = [model.forward(prompt, 0)[-1]]
        first_token_s = time.perf_counter() - begin
        model.seconds.clear()
        tokens: list[int] = []
        begin = time.perf_counter()
        for i in range(shape.new):
            tokens.append(int(np.argmax(logits[-1])))
            logits.append(model.forward(np.array(tokens[-1:]), shape.prompt + i)[0])
        decode_s = time.perf_counter() - begin
    decoding = dict(sorted(model.seconds.items(), key=lambda item: -item[1]))
    whole = model.forward(np.concatenate([prompt, tokens]), 0)[shape.prompt - 1 :]
    error = float(np.abs(whole - np.stack(logits)).max())
    total = sum(decoding.values())
    return {
        "shape": shape._asdict(),
        "first_token_ms": first_token_s * 1e3,
        "tokens_per_s": shape.new / decode_s,
        "shares": {name: seconds / total for name, seconds in decoding.items()},
        "error": error,
        "largest": float(np.abs(whole).max()),
        "ok": error <= _LARGEST_ERROR,
    }


def main() -> int:
    request = json.load(sys.stdin)
    made = run(request["quick"])
    s = made["shape"]
    print(
        f"A small Llama, {s['layers']} layers of {s['hidden']}, f32, a paged cache: "
        f"{made['first_token_ms']:.1f} ms to the first token after {s['prompt']}, "
        f"{made['tokens_per_s']:.0f} tokens/s"
    )
    print("  " + ", ".join(f"{name} {share:.0%}" for name, share in made["shares"].items()))
    print(f"  logits of decoding and of one prefill differ by at most {made['error']:.1g}\n")
    with open(request["result"], "w", encoding="utf-8") as file:
        json.dump(made, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
