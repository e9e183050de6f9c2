"""The checks that a case must pass: the oracle, the NumPy formula, repetition, another batch,
overlapping results.

In: a Call whose implementation is pinned. Out: nothing, or FailedCheck with what is wrong. Read
next: configs.py, run.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import _functions
from ..errors import ArgumentError
from ..oracle import reference, verify
from ..tuning import deterministic
from .call import PATTERNS, Call, FailedCheck, SkippedCase
from .cases import Registry


def _locate(call: Call, result: int, index: int) -> str:
    place = np.unravel_index(index, call.judged_at(result).shape)
    return f"{call.judged_names[result]}[{', '.join(str(int(i)) for i in place)}]"


def check_oracle(call: Call, rows: list[int] | None = None) -> bool:
    """Compares with the oracle; returns True if the comparison is mistrusted."""
    verdict = verify(call.case.op, (), call.out(), call.before(), rows=rows)
    if not verdict.ok:
        count = f"{verdict.wrong} of {verdict.checked} elements are wrong"
        if verdict.first_wrong < 0:  # a judge that only counts
            raise FailedCheck(f"{count}, some of {call.judged_names[verdict.result]}")
        where = _locate(call, verdict.result, verdict.first_wrong)
        got = call.judged_at(verdict.result).array.reshape(-1)[verdict.first_wrong]
        worst = f", at worst {verdict.worst:.3g} × the allowed error" * math.isfinite(verdict.worst)
        raise FailedCheck(f"{count}{worst}; first {where} = {float(got)!r}")
    return verdict.mistrusted


# Significant bits, exponent of the smallest number, largest number.
_FORMATS = {
    "float32": (24, -149, float(np.finfo(np.float32).max)),
    "float16": (11, -24, 65504.0),
    "bfloat16": (8, -133, float.fromhex("0x1.fep127")),
    "float8_e4m3fn": (4, -9, 448.0),
    "float8_e5m2": (3, -16, 57344.0),
    "float8_e8m0fnu": (1, -127, 2.0**127),
}


def round_to(dtype: np.dtype[Any], exact: Any) -> Any:
    """f64 → dtype → f64 with one rounding to nearest even, as the library stores a result: f8
    and i8 saturate, and NaN is 0 in i8. A cast of bf16 through f32 would round twice."""
    if dtype == np.int8:
        return np.nan_to_num(np.clip(np.round(exact), -128, 127))
    if dtype.kind in "iub" or dtype == np.float64:
        return exact
    digits, least, most = _FORMATS[dtype.name]
    with np.errstate(all="ignore"):
        step = np.maximum(np.frexp(exact)[1] - digits, least)
        rounded = np.ldexp(np.round(np.ldexp(exact, -step)), step)
    if dtype.name.startswith("float8"):
        return np.where(np.isnan(exact), exact, np.clip(rounded, -most, most))
    rounded = np.where(np.abs(rounded) > most, np.copysign(np.inf, rounded), rounded)
    return np.where(np.isfinite(exact), rounded, exact)


class Rounding:
    """The rounding that a formula uses: to the dtype of the operator's first tensor."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype

    def __call__(self, exact: Any) -> Any:
        return round_to(self.dtype, exact)


def formula_values(registry: Registry, call: Call) -> tuple[Any, ...]:
    """The family's NumPy formula in f64 on the case's inputs: results, then written inputs."""
    tensors = {name: t.array.astype(np.float64) for name, t in call.pristine.items()}
    scalars = {**call.defaults, **call.scalars}
    first = next(iter(call.inputs.values())).dtype
    with np.errstate(all="ignore"):
        return registry.formulas[call.case.op](tensors, scalars, Rounding(first))


def check_formula(registry: Registry, call: Call) -> None:
    """The oracle against the independent formula: f64 sums of the same terms, in any order, and one
    rounding."""
    expected = formula_values(registry, call)
    oracle = reference(call.case.op, (), call.before())
    terms = 64 + sum(math.prod(v) if isinstance(v, list) else v for v in call.case.dims.values())
    outcome = [(i, tensor) for i, tensor in enumerate(call.judged) if tensor is not None]
    for want, (i, tensor), ref in zip(expected, outcome, oracle, strict=True):
        got, rounded = tensor.array.astype(np.float64), round_to(tensor.dtype, want)
        with np.errstate(all="ignore"):
            # The formula's own error is proportional to the sums, but at most the error allowed to
            # a kernel. If it crosses a rounding boundary, the neighbours of the formula's result
            # are right too.
            slack = np.minimum(terms * 2.0**-52 * ref.magnitude, ref.allowed())
            low, high = round_to(tensor.dtype, want - slack), round_to(tensor.dtype, want + slack)
            right = (
                (got == rounded) | (np.isnan(got) & np.isnan(want)) | ((got >= low) & (got <= high))
            ) | (ref.magnitude < 0)
        if not right.all():
            first = int(np.flatnonzero(~right.reshape(-1))[0])
            is_, should_be = float(got.reshape(-1)[first]), float(rounded.reshape(-1)[first])
            raise FailedCheck(
                f"{int((~right).sum())} of {right.size} elements differ from the NumPy formula; "
                f"first {_locate(call, i, first)} = {is_!r}, expected {should_be!r}"
            )


def check_repeat(call: Call, impl: dict[str, Any], first: list[bytes]) -> None:
    """Runs again over another pattern and, on the CPU, on 1 and 2 threads. A repeatable one gives
    the same bits on the same threads. An implementation that calls other operators gives the same
    bits only if they are requested, as its parts may vary."""
    same_bits, asked = impl["deterministic"], impl["deterministic"] and impl["has_parts"]
    if asked:
        call.run(PATTERNS[0], deterministic=True)
        first = call.bits()
    counts = ((0, PATTERNS[1]), (1, PATTERNS[0]), (2, PATTERNS[1]))
    for threads, pattern in counts if call.device == "cpu" else counts[:1]:
        call.run(pattern, threads, asked)
        what = f"on {threads} thread{'s' * (threads > 1)}" if threads else "a second time"
        again = not threads and impl["repeatable"] and not impl["has_parts"]
        differ = (same_bits or again) and call.bits() != first
        if differ and call.defined_bits() != call.defined(first):
            flag = "deterministic" if same_bits else "repeatable"
            raise FailedCheck(
                f"run {what}, the bits differ, though the implementation is flagged {flag}"
            )
        if not same_bits:
            check_oracle(call)
    call.check_memory()


def check_batch(call: Call) -> None:
    """If the same bits are requested, the first half of the rows computed alone has the bits that
    it has in the whole batch."""
    if call.form or call.written or not call.results or not call.leading:
        return
    if not call.all_of_rows or any(t.array.ndim < 2 for t in call.results):
        return
    rows = call.results[0].shape[0] // 2
    if rows == 0 or call.results[0].array.size == 0:
        return
    total = call.results[0].shape[0]
    with deterministic():
        call.run(PATTERNS[0])
        first = call.bits()
    named = {
        n: t.part((rows, *t.shape[1:]))
        if n in call.with_rows and t.shape[0] == total
        else t.argument
        for n, t in call.inputs.items()
    }
    made = [call.make((rows, *r.shape[1:]), r.dtype, r.kind) for r in call.results]
    targets = tuple(tensor.argument for tensor in made)
    with deterministic():
        _functions.FUNCTIONS[call.case.op].call(
            **named, **call.scalars, out=targets if len(targets) > 1 else targets[0]
        )
    masks = None
    for i, (part, whole) in enumerate(zip(made, first, strict=True)):
        part.pull()
        bits, same = part.bits(), whole[: part.array.nbytes]
        if bits == same:
            continue
        masks = masks or call.undefined()
        if call.blank(bits, masks[i]) != call.blank(same, masks[i]):
            raise FailedCheck(f"{rows} rows alone and among {total} differ in bits")


def _check_overlap_there(call: Call, source: Any) -> None:
    """``check_overlap`` in device memory, with addresses there."""
    from .device import DeviceArray

    result = call.results[0]
    at = source.address + source.dtype.itemsize
    targets: list[Any] = [r.argument for r in call.results]
    steps = tuple(s * result.dtype.itemsize for s in np.empty(result.shape, np.uint8).strides)
    targets[0] = DeviceArray(at, result.shape, targets[0].dtype, steps, call.device)
    source.push()
    before = source.memory.tobytes()
    try:
        _functions.FUNCTIONS[call.case.op].call(
            **call.named(), out=targets[0] if len(targets) == 1 else tuple(targets)
        )
    except ArgumentError:
        source.pull()
        if source.memory.tobytes() != before:
            raise FailedCheck("an overlapping result was refused, but memory was written") from None
        return
    raise FailedCheck("a result that overlaps an input partly was not refused")


def check_overlap(call: Call) -> None:
    """Checks that a result that partly overlaps an input is refused with the typed error, and that
    nothing is written."""
    source = next((t for t in call.inputs.values() if t.array.ndim > 1), None)
    if source is None or not call.results:
        raise SkippedCase("no matrix among the inputs, or no result")
    result = call.results[0]
    if source.array.size < 2 or result.array.size < 2:
        raise SkippedCase("too small to overlap")
    if call.device != "cpu":
        return _check_overlap_there(call, source)
    at = source.array.ctypes.data - source.memory.ctypes.data + source.dtype.itemsize
    room = source.memory.size - at
    if (
        result.array.nbytes > room
    ):  # shapes differ: the memory of the input, and what the result needs beyond
        source.memory = np.concatenate([source.memory, np.zeros(result.array.nbytes, np.uint8)])
        source.array = np.ndarray(
            source.shape, source.dtype, source.memory, at - source.dtype.itemsize
        )
    out: list[Any] = [r.array for r in call.results]
    out[0] = np.ndarray(result.shape, result.dtype, source.memory, at)
    before = source.memory.tobytes()
    try:
        _functions.FUNCTIONS[call.case.op].call(
            **call.named(), out=out[0] if len(out) == 1 else tuple(out)
        )
    except ArgumentError:
        if source.memory.tobytes() != before:
            raise FailedCheck("an overlapping result was refused, but memory was written") from None
        return
    raise FailedCheck("a result that overlaps an input partly was not refused")
