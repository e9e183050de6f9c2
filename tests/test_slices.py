"""Slices of one tensor do not overlap: every operator that writes its arguments, in place or into a
cache, gives the same results on slices of one tensor (q and k of one projection, kv[:, 0] and
kv[:, 1], neighbours in a pool) as on separate tensors. Real overlaps are refused, and nothing is
written. Then the same for two operators that a user declares by schemas. tests/cpp/test_overlap.cpp
checks views by brute force.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import dlblas
import numpy as np
import pytest
from dlblas.harness.call import Call
from dlblas.harness.cases import INPLACE, Case, load_registry
from dlblas.harness.cases import expand as all_cases
from dlblas.harness.checks import check_oracle
from dlblas.harness.tensors import Guarded

pytestmark = pytest.mark.attack("results that overlap, and slices that do not")

REGISTRY = load_registry()
CASES: dict[tuple[str, str], list[Case]] = defaultdict(list)
for _case in all_cases(REGISTRY):
    if _case.values == "normal":
        CASES[_case.op, _case.layout].append(_case)


def writes(op: dict[str, Any]) -> bool:
    return any(t["written"] for t in op["tensors"]) or any(f["inplace"] for f in op["forms"])


WRITERS = sorted(name for name, op in REGISTRY.operators.items() if writes(op))


def smallest(op: str, layout: str) -> Case | None:
    """The smallest non-empty case of the operator among those with the fewest sizes of 1."""

    def rank(case: Case) -> tuple[int, bool, int, str]:
        sizes = [m for n in case.dims.values() for m in (n if isinstance(n, list) else [n])]
        return sizes.count(1), case.dtype == "f32", math.prod(sizes), case.name

    fit = [case for case in CASES[op, layout] if rank(case)[2] > 0]
    return min(fit, key=rank, default=None)


def calls_of(op: str) -> Iterator[Call]:
    """In-place calls, and calls with inputs that are written."""
    facts = REGISTRY.operators[op]
    layouts = [INPLACE] if REGISTRY.inplace_form(op) else []
    if any(t["written"] for t in facts["tensors"]):
        layouts.append("contiguous")
    for layout in layouts:
        case = smallest(op, layout)
        assert case, f"{op} has no case {layout}"
        yield Call(REGISTRY, case, 1)


def written(call: Call) -> list[str]:
    received = filter(None, call.form["receives"]) if call.form else ()
    return [*(name for name in call.written if name in call.inputs), *received]


def place(call: Call, name: str, array: Any) -> None:
    """Moves the argument and its values into `array`."""
    old = call.inputs[name]
    tensor: Any = Guarded.__new__(Guarded)
    tensor.dtype, tensor.shape, tensor.kind = old.dtype, old.shape, "contiguous"
    array[...] = old.array
    tensor.array = array
    tensor._bytes = array[..., None].view(np.uint8)
    call.inputs[name] = tensor
    for rows in (call.results, call.outputs, call.judged):
        rows[:] = [tensor if row is old else row for row in rows]  # type: ignore[type-var]


def side_by_side(arrays: list[Any]) -> list[Any]:
    """Columns of one tensor, like q, k and v of a projection; neighbours if the rank is 1."""
    width = sum(a.shape[-1] for a in arrays)
    whole = np.zeros((*arrays[0].shape[:-1], width), arrays[0].dtype)
    ends = np.cumsum([a.shape[-1] for a in arrays])
    return [whole[..., end - a.shape[-1] : end] for a, end in zip(arrays, ends, strict=True)]


def stacked(arrays: list[Any]) -> list[Any]:
    """Like kv[:, 0] and kv[:, 1]."""
    shape = arrays[0].shape
    whole = np.zeros((shape[0], len(arrays), *shape[1:]), arrays[0].dtype)
    return [whole[:, i] for i in range(len(arrays))]


def together(call: Call, how: str) -> int:
    """Moves inputs of one dtype into one tensor where their shapes allow; returns how many."""
    groups: dict[Any, list[str]] = defaultdict(list)
    for name, tensor in call.inputs.items():
        a = tensor.array
        if a.ndim:
            groups[a.dtype, a.shape[:-1] if how == "side_by_side" else a.shape].append(name)
    count = 0
    for names in groups.values():
        if len(names) > 1:
            arrays = [call.inputs[name].array for name in names]
            made = (side_by_side if how == "side_by_side" else stacked)(arrays)
            for name, array in zip(names, made, strict=True):
                place(call, name, array)
            count += len(names)
    return count


def judge(call: Call) -> None:
    before = {name: t.array.tobytes() for name, t in call.inputs.items()}
    call.run(0xA5)
    check_oracle(call)
    changing = written(call)
    for name, tensor in call.inputs.items():
        if name not in changing:
            assert tensor.array.tobytes() == before[name], f"{name} was written"


@pytest.mark.parametrize("how", ["side_by_side", "stacked"])
@pytest.mark.parametrize("op", WRITERS)
def test_slices_of_one_tensor(op: str, how: str) -> None:
    for call in calls_of(op):
        if together(call, how) == 0:  # no two of a shape: the written ones beside strangers
            for name in written(call):
                a = call.inputs[name].array
                place(call, name, (side_by_side if how == "side_by_side" else stacked)([a, a])[0])
        judge(call)


@pytest.mark.parametrize("op", WRITERS)
def test_neighbours_in_one_pool(op: str) -> None:
    """Each argument ends where the next one begins."""
    for call in calls_of(op):
        total = sum(t.array.nbytes + 64 for t in call.inputs.values())
        pool, at = np.zeros(total, np.uint8), 0
        for name, tensor in list(call.inputs.items()):
            at += -(pool.ctypes.data + at) % tensor.dtype.itemsize
            place(call, name, np.ndarray(tensor.shape, tensor.dtype, pool, at))
            at += tensor.array.nbytes
        judge(call)


@pytest.mark.parametrize("op", WRITERS)
def test_what_overlaps_is_refused(op: str) -> None:
    """Each written argument begins one element before the end of each other argument."""
    for call in calls_of(op):
        for name in written(call):
            target = call.inputs[name]
            for other, tensor in call.inputs.items():
                if other == name or min(target.array.size, tensor.array.size) < 2:
                    continue
                step = max(target.dtype.itemsize, tensor.dtype.itemsize)
                at = (tensor.array.nbytes - 1) // step * step  # aligned for both
                pool = np.zeros(at + target.array.nbytes + 2 * step, np.uint8)
                begin = -pool.ctypes.data % step
                shown = {
                    other: np.ndarray(tensor.shape, tensor.dtype, pool, begin),
                    name: np.ndarray(target.shape, target.dtype, pool, begin + at),
                }
                shown[other][...] = tensor.array
                before = pool.tobytes()
                form = call.form["name"] if call.form else op
                out = {"out": call.targets()} if call.outputs else {}
                with pytest.raises(dlblas.errors.ArgumentError, match="overlap"):
                    getattr(dlblas, form)(**{**call.named(), **shown}, **out)
                assert pool.tobytes() == before, f"{name} over {other}: memory was written"


# Registered operators stay for the process, so each run has its own.
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
        [sys.executable, "-c", CODE, arrays], capture_output=True, text=True, timeout=480,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.stdout == "done\n", done.stderr
