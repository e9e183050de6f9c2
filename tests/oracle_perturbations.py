"""Errors that a user would call wrong, put into right results: does the judge refuse them?

In: an operator of the registry, sizes of its letters. Out: which perturbations ``dlblas.verify``
refuses, and the smallest error of one element that it refuses. No operator is named outside tables.
``python tests/oracle_perturbations.py`` prints the table of docs/testing.md, ``--write`` writes it
there.
Read next: test_oracle_says_no.py, device/oracle/sum_error.hpp.
"""

from __future__ import annotations

import argparse
import math
import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, os.environ.get("DLBLAS_TEST_PYTHON", str(ROOT / "build" / "python")))

import dlblas  # noqa: E402
import numpy as np  # noqa: E402
from dlblas._dims import of_json  # noqa: E402
from dlblas._specs import shape_of, size_arguments  # noqa: E402
from dlblas.harness import Case, load_registry  # noqa: E402
from dlblas.harness.call import PATTERNS, Call, numpy_dtype  # noqa: E402
from dlblas.harness.checks import Rounding, round_to  # noqa: E402

REGISTRY = load_registry()
ROUNDING = 2.0**-24  # of f32, relative, at most
ROUNDINGS = 16  # an element this far off is wrong
TILE = 16
FAR = 5  # and in no element, however little its row and column tell of it, are as many times hidden


class Hidden(NamedTuple):
    """Factors by which one element's undetected error may exceed that of other operators: ``f32``
    in roundings of f32; ``bf16`` and ``f16``, for inputs of these dtypes, in 2^-8 of the largest
    value of its row or column."""

    f32: float
    bf16: float = 1
    f16: float = 1
    long: float = 1  # times f32's, of sums of 2^22 terms and more


# Attention: rounding a score of size |s| moves every weight of its row by |s| roundings, and a sum
# over D = 4096 has an error that grows with its root, which the sizes of the terms do not show (1.5
# times, for 8-bit codes, whichever dtype a case names); in gradients, dP - delta cancels in the
# sizes, and P and dS are rounded to 16 bits before they are multiplied. Normalised values are
# rounded to bf16 before they are multiplied: 3 sqrt(sum p^2), for each factor of a gate
# (ops/mlp/norm_ref.hpp). Products: in sums of 16 to 64 terms some elements reach a chain's worst
# case, and these draws have few elements: of four sums of 2^24 products of codes, the largest was
# 0.4 of their deviation. Softmax: 2^24 terms of one sign accumulate 46 roundings in a block of 128
# threads, which a search may try (ops/softmax_sum.hpp); 6 on a CPU and with 1,024 threads. Delta
# rule: the sizes of its terms cancel, and the error that old tokens' roundings leave in a state is
# bounded as a vector's length, of which q may pick up less. Rotated heads are rounded to q's dtype
# before scores are computed, where a near tie may round either way; a code of a gate takes the
# bound of two sums.
_HIDDEN = {
    "flash_attention_lse": Hidden(4, 2),
    "flash_attention_varlen_lse": Hidden(2, 2),
    "flash_attention_f8_lse": Hidden(4, 2, 2),
    "flash_attention_varlen_f8_lse": Hidden(4, 2, 2),
    "flash_attention_rotary": Hidden(12, 8, 4),
    "flash_attention_backward": Hidden(10, 3, 1.5),
    "flash_attention_varlen_backward": Hidden(8, 3, 1.5),
    "mla_decode_lse": Hidden(4, 2),
    "paged_attention_lse": Hidden(6),
    "norm_linear": Hidden(2, 2),
    "norm_gated_linear": Hidden(2, 12),
    "gated_linear_quant_group": Hidden(4, 4, 4),
    "batched_matmul": Hidden(1.25),
    "batched_matmul_nt": Hidden(1.25),
    "scaled_mm_block": Hidden(2.5),
    "grouped_gemm_rows_block": Hidden(2.5),
    "grouped_gemm_masked_block": Hidden(2.5),
    "grouped_gemm_k_block": Hidden(2.5),
    "softmax": Hidden(1, long=1.6),
    "lora_expand": Hidden(1.25),
    "lora_shrink": Hidden(1.25),
    "gated_delta_rule_packed": Hidden(12),
}
# Scalars as users set them. Keys that are not normalised multiply a state's error by beta |k|² per
# token, so after a few tokens no digit of it is right in f32.
_GIVEN: dict[str, dict[str, Any]] = {"gated_delta_rule_packed": {"qk_l2norm": True}}
# With all inputs positive, a rotation computes |x1| cos - |x2| sin; the size of its terms is its
# result for -sin.
_TURNED = {"partial_rotary_heads_sum": "sin"}
# Perturbations that never show: a code of 4 or 8 bits times a power of 2 is exact in bf16.
_NEVER = {("dequantize_mxfp4", "y"): {"bf16_rounded"}, ("dequantize_mxfp8", "y"): {"bf16_rounded"}}
_AT_MOST = {"Dv": "Dn"}  # a letter that the operator's check holds below another
_WHOLE = ("int32", "int64", "float8_e8m0fnu")  # between 1 and 2 they have nothing
MARKS = ("<!-- smallest-error: tests/oracle_perturbations.py --write -->", "<!-- end -->")


class Judged(NamedTuple):
    """One result of a problem: the right array, the oracle's values, the mask of defined and finite
    elements (the others are set to 0), the size of each element's own terms, the error of NumPy in
    f32, the fraction of sums that tensor cores truncate, and a function that judges an array in its
    place."""

    name: str
    right: Any
    value: Any
    defined: Any
    allowed: Any
    size: Any
    plain: Any
    cut: float  # inputs of 16 or 8 bits: tensor cores cut sums, to this part of them
    verify: Any
    roundings: float = ROUNDINGS

    def refused(self, array: Any) -> bool:
        """What ``verify`` would say, from the reference at hand: computing one of a long sum takes
        seconds."""
        off = abs(np.asarray(array, np.float64).reshape(self.value.shape) - self.value)
        return bool((self.defined & ~(off <= self.allowed)).any())


def problem(op: str, letter: str, size: int, dtype: str, values: str, others: int) -> Case:
    """One letter is as long as ``size``, or nearly where the operator does not offer that; the
    others are short. A parameter that chooses a result's dtype is f32 where it can be."""
    facts = REGISTRY.operators[op]
    dims = sizes_of(op, letter, size, others)
    kinds = [p for p in facts["forms"][0]["params"] if p["kind"] == "dtype"]
    wide = {p["name"]: "f32" for p in kinds if "f32" in p["values"]}
    given = wide | _GIVEN.get(op, {})
    return offered(Case(op, f"{letter}={size}", dims, dtype, "contiguous", values, given))


def sizes_of(op: str, letter: str, size: int, others: int) -> dict[str, int]:
    """The size of every letter: ``size`` for one, ``others`` for the rest, or more where the schema
    needs it."""
    facts = REGISTRY.operators[op]
    dims = divisible(facts, {row["name"]: others for row in facts["letters"]} | {letter: size})
    for less, more in _AT_MOST.items():
        if less in dims and more in dims:
            dims[more] = max(dims[more], dims[less])
    return dims


def given_sizes(op: str) -> set[str]:
    """The letters whose sizes are scalar arguments."""
    facts = REGISTRY.operators[op]
    return set(size_arguments(facts, {row["name"]: 1 for row in facts["letters"]}))


def elements_of(op: str, sizes: dict[str, int]) -> int:
    """The number of elements of all tensors and results, from their shapes."""
    facts = REGISTRY.operators[op]
    both = (*facts["tensors"], *facts["results"])
    return sum(math.prod(shape_of(t["dims"], sizes, False)) for t in both)


def divisible(facts: Any, sizes: dict[str, int]) -> dict[str, int]:
    """Increases sizes until every ``//`` divides without remainder."""
    dims = [of_json(d) for t in (*facts["tensors"], *facts["results"]) for d in t["dims"]]
    while uneven := next((d for d in dims if d.whole and d.total(sizes) % d.by(sizes)), None):
        sizes[uneven.terms[0].letter] += 1
    return sizes


def offered(case: Case) -> Case:
    """A scalar argument may allow few sizes: where the operator refuses one by name, tries the next
    lower power of 2."""
    given = size_arguments(REGISTRY.operators[case.op], case.dims)
    while given:
        try:
            Call(REGISTRY, case, 0)
            break
        except dlblas.errors.ArgumentError as refused:
            name = refused.argument
            if name not in given or case.dims[name] < 2:
                raise
            below = 1 << ((case.dims[name] - 1).bit_length() - 1)
            case = case._replace(dims={**case.dims, name: below})
    return case


def owed(cases: Sequence[Case]) -> set[tuple[str, str]]:
    """For each result and written input, the ways to be wrong that the sizes of one letter must
    show between them, from shapes and dtypes alone."""
    facts = REGISTRY.operators[cases[0].op]
    dims = {t["name"]: t["dims"] for t in (*facts["tensors"], *facts["results"])}
    call = Call(REGISTRY, cases[0], 0)
    exact = not _cut(call.before()) and not numpy_missing()
    rows = set()
    for name, tensor in zip(call.judged_names, call.judged, strict=True):
        if tensor is None:  # a written input that is not given
            continue
        shapes = [shape_of(dims[name], case.dims, False) for case in cases]
        ways = {"zeros", "scaled", "one_element", "worst", "last_unwritten"}
        if any(math.prod(shape) > 1 for shape in shapes):
            ways.add("stale_tile")
        if any(math.prod(shape[:-1]) > 1 for shape in shapes):
            ways.add("rows_swapped")
        if exact and tensor.array.dtype == np.float32:
            ways.add("bf16_rounded")
        rows |= {(name, way) for way in ways - _NEVER.get((call.case.op, name), set())}
    return rows


def _floats(arguments: dict[str, Any]) -> set[str]:
    given = arguments.items()
    return {name for name, v in given if hasattr(v, "dtype") and v.dtype.kind not in "iu"}


def _cut(arguments: dict[str, Any]) -> float:
    """The fraction of sums that tensor cores truncate, from the inputs' dtypes."""
    widths = [arguments[name].dtype.itemsize for name in _floats(arguments)]
    codes = widths.count(1) > 1  # that are multiplied
    return 2.0**-6 if codes else 2.0**-8 if 2 in widths else 0.0


def judged(case: Case, seed: int) -> Iterator[Judged]:
    """The results of a problem, restricted to elements that the oracle defines and that are
    finite."""
    call = Call(REGISTRY, case, seed)
    before = call.before()
    refs = dlblas.reference(case.op, (), before)
    dtypes = [r.array.dtype for r in call.outcome()]
    rights = [stored_as(d, ref.value) for d, ref in zip(dtypes, refs, strict=True)]
    floats = _floats(before)
    positive = {n: np.asarray(abs(v)) if n in floats else v for n, v in before.items()}
    sizes = [abs(r.value) for r in dlblas.reference(case.op, (), positive)]
    if turn := _TURNED.get(case.op):
        turned = dlblas.reference(case.op, (), {**positive, turn: -positive[turn]})
        sizes = [np.maximum(a, abs(r.value)) for a, r in zip(sizes, turned, strict=True)]
    plain = list(_formula_in_f32(call))
    for i, dtype in enumerate(dtypes):
        if dtype.itemsize == 1:  # a code is right or wrong: its own rounding is no error, and
            codes = stored_as(dtype, plain[i]).astype(np.float64)  # f32 may take the next at a tie
            near = abs(codes - rights[i].astype(np.float64)) <= _step(dtype, abs(rights[i]))
            plain[i] = np.where(near, refs[i].value, codes)
    hidden = _HIDDEN.get(case.op, Hidden(1))
    roundings = ROUNDINGS * hidden.f32 * (hidden.long if max(case.dims.values()) >= 2**22 else 1)
    cut = _cut(before) * getattr(hidden, case.dtype)

    places = [i for i, result in enumerate(call.judged) if result is not None]

    def verify(at: int, array: Any) -> Any:
        out: list[Any] = [None] * len(call.judged)  # a written input may be absent
        for place, right in zip(places, rights, strict=True):
            out[place] = right
        out[places[at]] = array.reshape(rights[at].shape)
        return dlblas.verify(case.op, (), tuple(out) if len(out) > 1 else out[0], before)

    for i, (ref, right) in enumerate(zip(refs, rights, strict=True)):
        verdict = verify(i, right)
        assert verdict.ok, f"{case}: the oracle refuses its own {ref.name}: {verdict}"
        # The lse of an empty set is infinite, and so is a value beyond the dtype's range.
        defined = (ref.magnitude >= 0) & np.isfinite(ref.value) & np.isfinite(right)
        if not defined.any():
            continue
        value, terms, allowed = (
            np.where(defined, array, 0) for array in (ref.value, sizes[i], _quietly(ref.allowed))
        )
        zeros = (abs(value) <= allowed)[defined]
        if zeros.sum() > 0.5 * (ref.magnitude >= 0).sum():  # infinities are no zeros, and judged
            assert verdict.mistrusted, f"{case}: zeros pass for {ref.name}, and nothing says so"
        if zeros.all():  # what is normalised is one element, say: zero, but for what hides it
            continue
        size = np.maximum(terms, _row_and_column(value))
        off = _row_and_column(np.where(defined, plain[i], 0) - value)
        yield Judged(
            ref.name, right, value, defined, allowed, size, off, cut,
            lambda a, i=i: verify(i, a), roundings,
        )  # fmt: skip


def _quietly(computed: Callable[[], Any]) -> Any:
    """Computes without a warning: infinities have no error."""
    with np.errstate(invalid="ignore"):
        return computed()


def _formula_in_f32(call: Call) -> Any:
    """The family's formula as NumPy computes it in f32: no kernel can keep digits that cancellation
    removes."""
    tensors = {name: _in_f32(t.array) for name, t in call.pristine.items()}
    rounding = Rounding(next(iter(call.inputs.values())).dtype)
    return REGISTRY.formulas[call.case.op](tensors, {**call.defaults, **call.scalars}, rounding)


def stored_as(dtype: Any, exact: Any) -> Any:
    """f64 rounded once to a result's dtype; 8-bit dtypes saturate."""
    if dtype.kind not in "iu":
        return round_to(dtype, exact).astype(dtype)
    ends = np.iinfo(dtype)
    return np.clip(np.rint(exact), ends.min, ends.max).astype(dtype)


def _in_f32(array: Any) -> Any:
    """Packed integers and indices stay as they are: f32 can hold only 24 of their bits."""
    whole = array.dtype.kind in "iu" and array.dtype.itemsize >= 4
    return array if whole else array.astype(np.float32)


def _row_and_column(value: Any) -> Any:
    """The largest |value| in an element's row or column."""
    flat = abs(value.reshape(-1, value.shape[-1] if value.ndim else 1))
    return np.maximum(flat.max(-1, keepdims=True), flat.max(0)).reshape(value.shape)


def visible(result: Judged) -> Any:
    """The largest error of an element that is not yet called wrong: some f32 roundings of its terms
    or, where terms cancel, a multiple of NumPy's error in f32; where tensor cores truncate sums, at
    least one bf16 rounding of the largest value of its row or column, four for 8-bit codes."""
    least = result.roundings * ROUNDING * result.size
    hides = 4 * result.plain > least  # terms cancel: NumPy's few samples tell little of the worst
    least = np.where(hides, 32 * result.plain, least)
    return np.maximum(least, result.cut * _row_and_column(result.value))


def of_all_elements(result: Judged) -> dict[str, Any]:
    """All zeros, and the whole result scaled up by a few per cent or more."""
    dtype = result.right.dtype
    # A step of f8 is up to an eighth; several 16-bit roundings hide an error of 2 %.
    factor = 1.25 if dtype.itemsize == 1 else 1.02 if result.cut < 0.0195 else 1 + 2 * result.cut
    if dtype.name in _WHOLE:
        factor = 2
    scaled = np.where(result.defined, result.value * factor, result.right)
    return {"zeros": np.zeros_like(result.right), "scaled": stored_as(dtype, scaled)}


def perturbations(result: Judged, rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Named arrays that differ visibly from the right one where it is defined, and nowhere else:
    anyone would notice a missing infinity."""
    right, value, defined = np.atleast_1d(result.right, result.value, result.defined)
    places = np.flatnonzero(defined)
    dtype, width = right.dtype, right.shape[-1]

    def stored(exact: Any) -> Any:
        return stored_as(dtype, exact)

    def changed(**changes: Any) -> Iterator[tuple[str, Any]]:
        for name, changed_one in changes.items():
            finite = defined & np.isfinite(changed_one)
            array = np.where(finite, changed_one, right).astype(dtype)
            differs = finite & (array != right)  # a code is not the value that it stands for
            off = np.where(differs, abs(array.astype(np.float64) - value), 0)
            if (off > least).any():
                yield name, array

    rows, least = right.reshape(-1, width), np.atleast_1d(visible(result))
    yield from changed(**{n: np.atleast_1d(a) for n, a in of_all_elements(result).items()})
    if dtype == np.float32:
        bf16 = np.dtype("float32") if numpy_missing() else numpy_dtype("bf16")
        yield from changed(bf16_rounded=right.astype(bf16).astype(np.float32))
    part = np.atleast_1d(result.allowed) / np.maximum(least, 1e-300)
    worst = np.argmax(np.nan_to_num(part.ravel()[places]))
    for name, place, times in (
        ("one_element", rng.integers(places.size), 1),
        ("worst", worst, FAR),
    ):
        element = value.copy()
        at = np.unravel_index(places[place], value.shape)
        # Storing the element may round it once more, in the result's own dtype.
        step = _step(dtype, float(abs(right[at]))) if dtype != np.float32 else 0.0
        far = 1.01 * times * least[at] + ROUNDINGS / 2 * step
        element[at] += far
        if stored(element)[at] == right[at]:  # the largest code has none above
            element[at] -= 2 * far
        yield from changed(**{name: stored(element)})
    for pattern in PATTERNS:
        last = right.copy()
        last.reshape(-1)[places[-1] :][:1].view(np.uint8)[:] = pattern
        yield from changed(last_unwritten=last)
    if len(rows) > 1:
        order = np.arange(len(rows))
        a, b = rng.choice(len(rows), 2, replace=False)
        if np.array_equal(rows[a], rows[b]):  # of empty groups, say
            a = np.argmax(abs(value).reshape(len(rows), -1).max(-1))
        order[[a, b]] = b, a
        yield from changed(rows_swapped=rows[order].reshape(right.shape))
    if rows.size > 1:  # a tile as it was before the call: of other rows and columns
        stale = rows.copy()
        r, c = rng.integers(len(rows)), rng.integers(width)
        stale[r : r + TILE, c : c + TILE] = rows[::-1, ::-1][r : r + TILE, c : c + TILE]
        yield from changed(stale_tile=stale.reshape(right.shape))


def _step(dtype: Any, sizes: Any) -> Any:
    """The distance from each value to the next larger one; the largest value has none, so its step
    is the one below it."""
    if dtype.kind in "iu":
        return np.float64(1)
    steps, half = (np.spacing(np.asarray(s, dtype)).astype(np.float64) for s in (sizes, sizes / 2))
    return np.where(np.isfinite(steps), steps, 2 * half)


def numpy_missing() -> bool:
    try:
        import ml_dtypes  # noqa: F401
    except ImportError:
        return True
    return False


def smallest(case: Case, seed: int) -> Iterator[tuple[str, str]]:
    """The smallest error of an element that is refused, at the median: in f32 roundings of its own
    terms, and as a fraction of the result's root mean square."""
    before = Call(REGISTRY, case, seed).before()
    floats = _floats(before)
    positive = {n: np.asarray(abs(v)) if n in floats else v for n, v in before.items()}
    terms = dlblas.reference(case.op, (), positive)
    for ref, size in zip(dlblas.reference(case.op, (), before), terms, strict=True):
        least = np.maximum(abs(size.value), _row_and_column(ref.value))
        defined = ref.magnitude >= 0
        allowed, least, value = ref.allowed()[defined], least[defined], ref.value[defined]
        roundings = np.median(allowed / np.maximum(least, 1e-300)) / ROUNDING
        part = np.median(allowed) / math.sqrt(float(np.mean(value**2)))
        exact = roundings < 1e-9  # nothing but the right bits passes
        yield ref.name, "0" if exact else f"{roundings:.3g} ({part:.0e})"


SIZES = (16, 1024, 65536, 2**20, 2**25)
# One operator for each way to accumulate, with the letters it sums over; one that sums nothing.
SUMS = {
    "cross_entropy_rows": ("C",), "l2_norm": ("C",), "layer_norm": ("C",),
    "layer_norm_backward": ("C", "T"), "log_softmax": ("C",), "matmul": ("M", "K", "N"),
    "rms_norm": ("T", "C"), "rms_norm_backward": ("C", "T"), "silu_and_mul": ("F",),
    "softmax": ("C",), "softmax_backward": ("C",),
}  # fmt: skip


def table() -> list[str]:
    heads = " | ".join(f"{math.isqrt(size):,}" for size in SIZES)
    lines = [
        f"| operator, result | dtype | long letter; √ of its size: | {heads} |",
        "|---|---|---|--:|--:|--:|--:|--:|",
    ]
    for op, letters in SUMS.items():
        params = REGISTRY.operators[op]["forms"][0]["params"]
        wide = any(p["kind"] == "dtype" for p in params)
        for letter in letters:
            for dtype in ("f32", "bf16") if wide else ("f32",):
                cells: dict[str, list[str]] = {}
                for size in SIZES:
                    few = 16 if size < 2**20 else 2
                    for name, text in smallest(problem(op, letter, size, dtype, "normal", few), 7):
                        cells.setdefault(name, []).append(text)
                    print(op, letter, dtype, size, file=sys.stderr, flush=True)
                for name, row in cells.items():
                    lines.append(f"| {op}, {name} | {dtype} | {letter} | {' | '.join(row)} |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="into docs/testing.md")
    lines = table() if (given := parser.parse_args()) else []
    if not given.write:
        print("\n".join(lines))
        return 0
    path = ROOT / "docs" / "testing.md"
    head, rest = path.read_text().split(MARKS[0])
    path.write_text("\n".join([head + MARKS[0], *lines, MARKS[1] + rest.split(MARKS[1])[1]]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
