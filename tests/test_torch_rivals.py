"""torch's attention as a candidate: what it computes, what it refuses, and how it is judged.

Pins are set in separate processes, and end with them. Read next:
python/dlblas/torch/_rivals.py, ops/attention/rivals.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import dlblas
import dlblas.torch
import pytest

torch = pytest.importorskip("torch")

SCRIPT = """
import dlblas, sys, torch

assert not {"dlblas.own", "dlblas.torch.rivals"} & {*sys.modules}  # so that import is fast
dlblas.pin("flash_attention_lse", "torch_sdpa")
made = torch.Generator().manual_seed(5)
for batch, group, causal, scale in ((2, 3, False, None), (1, 2, True, None), (2, 1, True, -0.2)):
    q, k, v = (torch.randn(batch, 37, heads, 24, generator=made) for heads in (2 * group, 2, 2))
    if causal:
        k[:, 30], v[:, 33:] = float("nan"), float("inf")
    call = dict(causal=causal, scale=scale, return_lse=True)
    ours = dlblas.flash_attention(q, k, v, **call)
    dlblas.pin("flash_attention_lse", "reference")
    wanted = dlblas.flash_attention(q, k, v, **call)
    dlblas.pin("flash_attention_lse", "torch_sdpa")
    for mine, want in zip(ours, wanted):
        cut = slice(0, 30) if causal else slice(None)
        at = (slice(None), cut) if mine.ndim == 4 else (..., cut)
        torch.testing.assert_close(mine[at], want[at], rtol=1e-5, atol=1e-5)
        assert mine[at].isfinite().all()
print("equal")
dlblas.pin("flash_attention_lse", None)
q, k = torch.randn(1, 5, 2, 8), torch.randn(1, 9, 2, 8)
for more in (dict(causal=True), dict(window=3), dict(softcap=2.0)):
    print(dlblas.explain("flash_attention_lse", q, k, k, **more))
"""


def environment(root: Path) -> dict[str, str]:
    package = str(Path(dlblas.__file__).parent.parent)
    paths = filter(None, [package, os.environ.get("PYTHONPATH", "")])
    more = {"PYTHONPATH": os.pathsep.join(paths), "DLBLAS_CACHE": str(root / "store")}
    return {**os.environ, **more}


def test_what_it_computes_and_refuses(tmp_path: Path) -> None:
    file = tmp_path / "uses_rivals.py"
    file.write_text(SCRIPT, encoding="utf-8")
    env = environment(tmp_path)
    done = subprocess.run([sys.executable, file], env=env, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert "equal" in done.stdout
    for words in ("top left", "takes no window", "takes no softcap"):
        assert words in done.stdout, words


def test_the_oracle_judges_it(tmp_path: Path) -> None:
    words = ["--dims", "B=1,S=16,L=16,Hkv=2,G=2,D=32,Dv=32", "--dtype", "f32", "--seconds", "5"]
    env = environment(tmp_path)
    base = [sys.executable, "-m", "dlblas", "--import", "dlblas.torch.rivals"]
    for verb in (
        ["tune", "flash_attention_lse", *words],
        ["explain", "flash_attention_lse", *words[:-2]],
    ):
        done = subprocess.run([*base, *verb], env=env, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if "torch_sdpa" in line)
    assert "yes" in row and "µs" in row


def implementations(op: str) -> set[str]:
    row = next(row for row in dlblas.info()["operators"] if row["name"] == op)
    return {one["name"] for one in row["implementations"]}


def test_they_stand_wherever_torch_is() -> None:
    """They are candidates, but a call that was not measured runs none of them."""
    assert implementations("flash_attention_lse") >= {"torch_sdpa", "torch_flash", "torch_cudnn"}
    q = torch.randn(1, 16, 2, 32)
    for op, args in {
        "flash_attention_lse": (q, q, q),
        "flash_attention_varlen_lse": (q[0], q[0], q[0], *[torch.tensor([0, 16]).int()] * 2),
        "flash_attention_backward": (q, q, q, q, q, torch.zeros(1, 2, 16)),
    }.items():
        assert "torch_sdpa" in implementations(op)
        asked = dlblas.explain(op, *args)
        assert "torch_sdpa" in str(asked) and "torch_sdpa" not in asked.one_line(), op


def test_without_torch_there_are_none() -> None:
    words = (
        "import dlblas, json, sys; rows = dlblas.info()['operators']; "
        "print('torch' in sys.modules, [i['name'] for r in rows for i in r['implementations'] "
        "if i['name'].startswith('torch_')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", words], env=environment(Path(".")), text=True, capture_output=True
    )
    assert done.stdout.strip() == "False []", done.stderr


def test_a_worker_imports_torch_for_their_operators_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from dlblas import _worker_command

    told: list[list[str]] = []

    def note(words: list[str]) -> Any:
        told.append(list(words))
        return texts(words)

    texts = _worker_command._texts
    monkeypatch.setattr(_worker_command, "_texts", note)
    for op, wanted in (("rms_norm", False), ("flash_attention_varlen_lse", True)):
        told.clear()
        monkeypatch.setattr(_worker_command, "searched", op)
        _worker_command.announce()
        assert ("dlblas.torch.rivals" in told[0]) is wanted


PACKED = """
import dlblas, torch

made = torch.Generator().manual_seed(6)
draw = lambda *shape: torch.randn(*shape, generator=made)
starts = torch.tensor([0, 7, 7, 30, 33]).int(), torch.tensor([0, 9, 12, 30, 30]).int()
q, k, v = draw(40, 4, 16), draw(30, 2, 16), draw(30, 2, 16)
for causal in (False, True):
    call = dict(causal=causal, scale=-0.3, return_lse=True)
    wanted = dlblas.flash_attention_varlen(q, k, v, *starts, **call)
    with dlblas.pinned("flash_attention_varlen_lse", "torch_sdpa"):
        ours = dlblas.flash_attention_varlen(q, k, v, *starts, **call)
    torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-5)
# S and L of one bucket, whose decision is one: causal masks are aligned bottom right.
for s, l in ((100, 97), (97, 100), (128, 128)):
    leaves = [draw(2, n, h, 16).requires_grad_() for n, h in ((s, 4), (l, 2), (l, 2))]
    for causal in (False, True):
        o, lse = dlblas.flash_attention(*leaves, causal=causal, return_lse=True)
        wanted = torch.autograd.grad(o.square().sum(), leaves)
        with dlblas.pinned("flash_attention_lse", "torch_sdpa"), dlblas.pinned(
            "flash_attention_backward", "torch_sdpa"
        ):
            made_o, made_lse = dlblas.flash_attention(*leaves, causal=causal, return_lse=True)
            ours = torch.autograd.grad(made_o.square().sum(), leaves)
        torch.testing.assert_close((made_o, made_lse), (o, lse), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-4)
print("equal")
"""


def test_packed_sequences_gradients_and_sizes_of_a_bucket(tmp_path: Path) -> None:
    env = environment(tmp_path)
    done = subprocess.run([sys.executable, "-c", PACKED], env=env, text=True, capture_output=True)
    assert done.stdout.strip() == "equal", done.stderr


ON_A_GPU = """
import dlblas, torch

seeded = torch.Generator("cuda").manual_seed(7)
draw = lambda *shape: torch.randn(*shape, generator=seeded, device="cuda").bfloat16()
tried = set()

def close(mine, wanted, allowed):
    for a, b in zip(mine, wanted, strict=True):
        a, b = a.float(), b.float()
        apart = (a - b).norm() / b.norm()
        assert a.isfinite().all() and apart <= allowed, apart

def rivals(op, *args, **named):
    for row in dlblas.explain(op, *args, **named).as_dict()["candidates"]:
        if row["implementation"].startswith("torch_") and row["supports"]:
            tried.add((op, row["implementation"]))
            yield row["implementation"]

leaves = [draw(2, n, h, 64).requires_grad_() for n, h in ((256, 8), (256, 2), (256, 2))]
for causal in (False, True):
    o, lse = dlblas.flash_attention(*leaves, causal=causal, return_lse=True)
    do = draw(*o.shape)
    wanted = torch.autograd.grad(o, leaves, do, retain_graph=True)
    args = (do, *(leaf.detach() for leaf in leaves), o.detach(), lse.detach())
    for name in rivals("flash_attention_backward", *args, causal=causal):
        with dlblas.pinned("flash_attention_backward", name):
            close(torch.autograd.grad(o, leaves, do, retain_graph=True), wanted, 2e-2)
    for name in rivals("flash_attention_lse", *args[1:4], causal=causal):
        with dlblas.pinned("flash_attention_lse", name):
            made = dlblas.flash_attention(*args[1:4], causal=causal, return_lse=True)
            close(made, (o, lse), 8e-3)
print(*sorted(" ".join(pair) for pair in tried), sep="\\n")
"""


@pytest.mark.gpu
def test_on_a_gpu_they_agree_with_ours(tmp_path: Path) -> None:
    env = environment(tmp_path)
    done = subprocess.run([sys.executable, "-c", ON_A_GPU], env=env, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    for op in ("flash_attention_lse", "flash_attention_backward"):
        for name in ("torch_flash", "torch_cudnn"):
            assert f"{op} {name}" in done.stdout, done.stdout


UNSEEN = """
import torch
from dlblas.ops import attention_rivals as rivals

def attend(q, k, v, causal):  # what GPUs' kernels are given, with torch's CPU kernel in their place
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    return attention(q, k, v, 0.0, causal, scale=0.5)

q, k, v = (torch.randn(1, 9, 2, 16) for _ in range(3))
wanted, sums = rivals._on_gpu(attend, q, k, v, True)
v[0, 5, 1, 3], v[0, 7, 0] = torch.inf, torch.nan
got, lse = rivals._on_gpu(attend, q, k, v, True)
hit = torch.zeros_like(got, dtype=torch.bool)
hit[0, 5:, 1, 3], hit[0, 7:, 0] = True, True
torch.testing.assert_close(got[~hit], wanted[~hit])
torch.testing.assert_close(lse, sums)
assert not got[hit].isfinite().any()
print("equal")
"""


def test_a_value_that_is_not_finite_reaches_the_rows_that_see_it(tmp_path: Path) -> None:
    env = environment(tmp_path)
    done = subprocess.run([sys.executable, "-c", UNSEEN], env=env, text=True, capture_output=True)
    assert done.stdout.strip() == "equal", done.stderr
