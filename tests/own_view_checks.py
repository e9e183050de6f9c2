"""Functions that keep their arguments after the call, run in a process of their own by
test_own_views.py: each case was once a crash. One case per run: ``python own_view_checks.py CASE``.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import dlblas
import numpy as np
from dlblas.errors import LaunchError

OP = "rms_norm"
kept: list[Any] = []
ROWS, WIDTH = 1500, 1000  # 6 MB: given back to the system when freed


def keeps(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
    y[...] = x
    kept.append((x[1:].T, y.reshape(-1)[::2], weight))


def given(of: str = "numpy") -> tuple[Any, Any]:
    if of == "torch":
        import torch

        return torch.ones(ROWS, WIDTH), torch.ones(WIDTH)
    dtype: Any = np.float32
    if of == "bf16":
        import ml_dtypes

        dtype = ml_dtypes.bfloat16
    return np.ones((ROWS, WIDTH), dtype), np.ones(WIDTH, dtype)


def read(count: int = 1) -> None:
    """Allocates new arrays over whatever was freed, then reads everything kept: a page that is gone
    ends the process."""
    assert len(kept) >= count, len(kept)
    scribbled = [np.full((ROWS, WIDTH), 7, np.float32) for _ in range(8)]
    for views in kept:
        for view in views:
            wide = view.astype(np.float64) if isinstance(view, np.ndarray) else view.double()
            assert float(wide.sum()) == np.prod(view.shape), view
    del scribbled


def calls(of: str, **how: Any) -> None:
    dlblas.register(OP, "keeps", keeps, **how)
    with dlblas.pinned(OP, "keeps"):
        for _ in range(3):
            dlblas.rms_norm(*given(of))
    read(3)
    with dlblas.pinned(OP, "keeps"):
        x, weight = given(of)
        out = dlblas.rms_norm(x, weight)
        there = weakref.ref(x), weakref.ref(out)
        del x, weight, out
    gc.collect()
    if of != "torch":  # a tensor's handle is not its Python object
        assert all(reference() is not None for reference in there)
    kept.clear()
    gc.collect()
    assert all(reference() is None for reference in there), "kept for ever"


def numpy() -> None:
    calls("numpy")


def bf16() -> None:
    calls("bf16")


def torch_to_numpy() -> None:
    calls("torch")


def torch_to_torch() -> None:
    calls("torch", arrays="torch")


def numpy_to_torch() -> None:
    calls("numpy", arrays="torch")


def given_out_and_dlpack() -> None:
    """The caller's results, and arrays that do not come from NumPy."""
    dlblas.register(OP, "keeps", keeps)

    class Only:
        def __init__(self, array: Any) -> None:
            self.array = array

        def __dlpack__(self, **how: Any) -> Any:
            return self.array.__dlpack__(**how)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    with dlblas.pinned(OP, "keeps"):
        x, weight = given()
        dlblas.rms_norm(x, weight, out=np.empty_like(x))
        dlblas.rms_norm(Only(x), Only(weight))
        x = weight = None
    read(2)


def raises() -> None:
    """A kept exception keeps the arrays of its frames alive."""

    def fails(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        try:
            y[...] = x
            raise ValueError("kept")
        except ValueError as error:
            kept.append((error,))
            raise

    dlblas.register(OP, "fails", fails)
    with dlblas.pinned(OP, "fails"):
        try:
            dlblas.rms_norm(*given())
        except LaunchError as error:
            assert "kept" in str(error)
    (error,) = kept[0]
    trace = error.__traceback__
    while trace.tb_next:
        trace = trace.tb_next
    assert trace.tb_frame.f_locals["x"].sum() == ROWS * WIDTH


def cycle() -> None:
    """An array in a reference cycle is freed only by a collection; that is not an error."""

    def cyclic(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        y[...] = x
        me: list[Any] = [x]
        me.append(me)

    gc.disable()
    dlblas.register(OP, "cyclic", cyclic)
    with dlblas.pinned(OP, "cyclic"):
        x, weight = given()
        dlblas.rms_norm(x, weight)
    there = weakref.ref(x)
    del x
    assert there() is not None
    gc.collect()
    assert there() is None


def search() -> None:
    """The tuner's memory has no owner in Python."""

    def right(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        f = x.astype(np.float64)
        scale = 1 / np.sqrt((f * f).mean(-1, keepdims=True) + eps)
        y[...] = f * scale * (weight + weight_offset)
        kept.append((x[1:], y.T, weight))
        del kept[:-20]

    dlblas.register(OP, "right", right)
    report = dlblas.tune(OP, given(), seconds=1, implementations=["right"], worker=False)
    assert report.winner, report
    assert kept
    scribbled = [np.full((ROWS, WIDTH), 7, np.float32) for _ in range(8)]
    # The tuner's own patterns may be there, but no one else's data.
    assert not any((view == 7).all() for views in kept for view in views)
    del scribbled


def parts(of: str = "numpy") -> None:
    """The library owns the memory between the parts of a composed operator."""

    def multiply(a: Any, b: Any, bias: Any, out: Any) -> None:
        out[...] = 1
        kept.append((a, out))

    dlblas.register(OP, "keeps", keeps)
    dlblas.register("matmul", "multiplies", multiply)

    def call() -> None:
        x, weight = given(of)
        with (
            dlblas.pinned("norm_linear", "composed"),
            dlblas.pinned(OP, "keeps"),
            dlblas.pinned("matmul", "multiplies"),
        ):
            dlblas.norm_linear(x, weight, weight.reshape(1, -1))

    for _ in range(2):
        thread = threading.Thread(target=call)  # its workspace goes with it
        thread.start()
        thread.join()
    assert kept, "no part was ours"
    read(2)


def parts_of_torch() -> None:
    parts("torch")


def numbers() -> None:
    """A number that is passed for a tensor gets memory that belongs to the call."""
    schema = "scaled_copy(x: f[T, C], factor: f32[]) -> y: like(x)[T, C]"
    dlblas.register_operator(schema, lambda x, factor: x * factor)

    def keeps_all(x: Any, factor: Any, y: Any) -> None:
        y[...] = x * factor
        kept.append((factor, y))

    dlblas.register("scaled_copy", "keeps_all", keeps_all)
    with dlblas.pinned("scaled_copy", "keeps_all"):
        for _ in range(3):
            dlblas.scaled_copy(given()[0], 1.0)
    read(3)


def reference() -> None:
    """The oracle's function gets copies, also of integer inputs."""

    def pick(x: Any, ids: Any) -> Any:
        kept.append((x, ids))
        return x[ids]

    dlblas.register_operator("pick(x: f[T, C], ids: i32[N]) -> y: like(x)[N, C]", pick)
    dlblas.pick(np.ones((ROWS, WIDTH), np.float32), np.ones(5_000_000 // WIDTH, np.int32))
    read(1)


def foreign_caller() -> None:
    """The library cannot keep a C program's memory alive: the call fails and says so."""
    from dlblas.harness import abi

    dlblas.register(OP, "keeps", keeps)
    x, weight = given()
    y = np.empty_like(x)
    with dlblas.pinned(OP, "keeps"):
        try:
            abi.call(OP, {"x": x, "weight": weight}, [y], 1)
        except LaunchError as error:
            assert "keeps arguments" in str(error) and "copy what you keep" in str(error), error
        else:
            raise AssertionError("served")


def on_a_gpu() -> None:
    """Calls, and a search in this process: an access to memory that the driver took back would
    fault."""
    import torch

    def keeps_there(x: Any, weight: Any, eps: float, weight_offset: float, y: Any) -> None:
        y.copy_(torch.nn.functional.rms_norm(x, x.shape[-1:], weight + weight_offset, eps))
        kept.append((x[1:], y, weight))
        del kept[:-20]

    dlblas.register(OP, "keeps_there", keeps_there, devices="cuda")
    with dlblas.pinned(OP, "keeps_there"):
        for _ in range(3):
            dlblas.rms_norm(*(tensor.cuda() for tensor in given("torch")))
    x, weight = (tensor.cuda() for tensor in given("torch"))
    report = dlblas.tune(OP, (x, weight), seconds=2, implementations=["keeps_there"], worker=False)
    assert report.winner, report
    torch.cuda.empty_cache()
    assert all(torch.isfinite(view).any() for views in kept for view in views)
    torch.cuda.synchronize()
    kept.clear()
    gc.collect()
    dlblas.rms_norm(x, weight)
    torch.cuda.synchronize()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("alive")
