"""Slices of one tensor are not overlaps: rotations in place on q and k of one projection, stores
into kv[:, 0] and kv[:, 1]. What does overlap is refused, and nothing is written. Brute force over
views is in tests/cpp/test_overlap.cpp.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.attack("results that overlap, and slices that do not")

# Operators stay for the process: each run has one of its own.
CODE = """
import sys
import numpy as np
import dlblas

def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    c, s = cos[:, None], sin[:, None]
    return np.concatenate([a * c - b * s, b * c + a * s], -1)

def rope(q, k, cos, sin):
    return rotate(q, cos, sin), rotate(k, cos, sin)

def store(k, v, slots, k_cache, v_cache):
    k_cache, v_cache = k_cache.copy(), v_cache.copy()
    k_cache[slots], v_cache[slots] = k, v
    return k_cache, v_cache

dlblas.register_operator(
    "slices_rope(q: f32[T, H, D], k: f32[T, G, D], cos: f32[T, E], sin: f32[T, E])"
    " -> (q_out: f32[T, H, D], k_out: f32[T, G, D])",
    rope, inplace="slices_rope_(q!q_out, k!k_out, cos, sin)")
dlblas.register_operator(
    "slices_store(k: f32[T, H, D], v: f32[T, H, D], slots: i32[T], k_cache: f32[N, H, D],"
    " v_cache: f32[N, H, D]) -> (k_out: f32[N, H, D], v_out: f32[N, H, D])",
    store, inplace="slices_store_(k, v, slots, k_cache!k_out, v_cache!v_out)")

T, H, G, D = 5, 4, 2, 8
rng = np.random.default_rng(0)
qkv = rng.standard_normal((T, H + 2 * G, D), dtype="f")
cos, sin = rng.standard_normal((2, T, D // 2), dtype="f")
slots = np.array([4, 0, 2, 1, 5], "i4")
kv = np.zeros((6, 2, G, D), "f")
before = qkv.copy()
want_q, want_k = rope(before[:, :H], before[:, H : H + G], cos, sin)
if sys.argv[1] == "torch":
    import torch
    import dlblas.torch
    qkv, cos, sin, slots, kv = map(torch.from_numpy, (qkv, cos, sin, slots, kv))
q, k, v = qkv[:, :H], qkv[:, H : H + G], qkv[:, H + G :]
dlblas.slices_rope_(q, k, cos, sin)
np.testing.assert_allclose(q, want_q, rtol=1e-5, atol=1e-6)
np.testing.assert_allclose(k, want_k, rtol=1e-5, atol=1e-6)
assert np.array_equal(v, before[:, H + G :])
dlblas.slices_store_(k, v, slots, kv[:, 0], kv[:, 1])
expected = np.zeros((6, 2, G, D), "f")
expected[np.asarray(slots)] = np.stack([k, v], 1)
assert np.array_equal(kv, expected)

now = np.array(qkv)
for call, words in (
    (lambda: dlblas.slices_rope_(q, qkv[:, H - 1 : H + G - 1], cos, sin), "q overlaps k"),
    (lambda: dlblas.slices_store_(k, v, slots, kv[:5, 0], kv[1:, 0]), "overlaps"),
    (lambda: dlblas.slices_store_(k, v, slots, kv[:5, 0], k), "v_cache overlaps k"),
):
    try:
        call()
    except dlblas.errors.ArgumentError as e:
        assert words in str(e), e
    else:
        raise AssertionError(words)
assert np.array_equal(qkv, now) and np.array_equal(kv, expected)
print("done")
"""


@pytest.mark.parametrize("arrays", ["numpy", "torch"])
def test_in_place_on_slices_of_one_tensor(arrays: str) -> None:
    pytest.importorskip(arrays)
    done = subprocess.run(
        [sys.executable, "-c", CODE, arrays], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.stdout == "done\n", done.stderr
