"""Every function of the C ABI through ctypes, with structures in which a few fields are wrong:
counts, sizes, codes, null pointers, texts of arbitrary bytes.

In: a random number generator; tests/abi.txt for field offsets. A pointer is null or points to
memory that exists, and counts that could be true are true: the library can detect everything else.
It answers, or refuses with a status of its own and a message, and a refused call has written
nothing. Read next: calls.py, include/dlblas/dlblas.h.
"""

from __future__ import annotations

import ctypes
import math
import os
import random
import re
import sys
from typing import Any, ClassVar

import calls
from c_structs import ABI, LAYOUTS, Struct, pointers, structs

FUNCTIONS = set(re.findall(r"^[\w*]+(?: [\w*]+)* \*?(dlblas_\w+)\(", ABI, re.MULTILINE))

NUMBERS = (
    *range(-3, 18), 255, 256, 257, 513, 4097, 65536, -255, 2**20 + 1, 2**31 - 1, -(2**31),
    2**62, 2**63 - 1, -(2**63),
)  # fmt: skip
FAR = (0, 4, 8, 2**64 - 1, 2**64 - 8, 2**63)
INTERNAL = 10
TEXTS = (
    "", "rms_norm", "matmul", "add_rms_norm_", "x", "eps", "weight", "cpu_baseline", "cpu_avx2",
    "fuzzed", "unroll=2", "exhaustive", "random", "gelu", "f32", "bf16", "1", "a,b,,", " ", "\n",
    "$HOME", "\x7f", "x" * 300, "fuzzed_op", "y", "*", "(", "C", "path", "ls", "show\nx", "verify",
    "rules", "pin\nrms_norm\ncpu_baseline", "unpin\nrms_norm\n\n", "allow\nx\ny",
    "import\n/dev/null", "import\nnowhere", "merge\n.", "merge\n" + "y" * 5000, "export\nhere",
    "export\n/", "show",
)  # fmt: skip
SCHEMAS = (
    "fuzzed_op(x: f[T]) -> y: like(x)[T]",
    "fuzzed_op(x: f[T], k: int = 1) -> (y: like(x)[T], z: f32[T])",
    "rms_norm(x: f[T]) -> y: like(x)[T]",
)
Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class Target:
    def __init__(self) -> None:
        import dlblas

        self.lib = ctypes.CDLL(dlblas._native.library_path())
        for name in ("dlblas_version", "dlblas_written"):
            getattr(self.lib, name).restype = ctypes.c_char_p
        self.memory = (ctypes.c_uint8 * (1 << 15))()
        self.plain = bytes(self.memory)
        self.middle = ctypes.addressof(self.memory) + len(self.memory) // 2
        self.ops = {}
        for name in dlblas._functions.FUNCTIONS:
            handle = ctypes.c_void_p()
            assert self.lib.dlblas_op(name.encode(), ctypes.byref(handle)) == 0
            self.ops[name] = handle
        self.forms = {**self.forms_of_registry(), **self.FORMS}
        self.zero = Callback(lambda *_: 0)
        self.one = Callback(lambda *_: 1)
        self.options: Any = None
        self.table = {
            name.removeprefix("_"): getattr(self, name)
            for name in dir(type(self))
            if name.startswith("_dlblas_")
        }
        # dlblas_free needs no call of its own: the other calls use it to free what the library
        # allocated.
        missing = FUNCTIONS - set(self.table) - {"dlblas_free"}
        assert not missing, f"no calls of {missing}"
        self.usual = ["_dlblas_call"] * 40 + ["_dlblas_explain", "_dlblas_reference"] * 6
        self.usual += ["_dlblas_verify", "_dlblas_warmup"] * 6 + ["_dlblas_tune"] * 2
        self.usual += ["_dlblas_register", "_dlblas_register_operator", "_dlblas_bench_host"] * 3
        self.usual += [f"_{name}" for name in self.table if not name.endswith("_info")]

    # ---- what goes in ----

    def text(self, r: random.Random) -> bytes | None:
        if r.random() < 0.08:
            return None
        if r.random() < 0.8:
            return r.choice(TEXTS).encode()
        return bytes(r.randrange(1, 256) for _ in range(r.randrange(24)))

    def texts(self, r: random.Random, count: int = 8) -> Any:
        return None if r.random() < 0.1 else pointers([self.text(r) for _ in range(count)])

    def function(self, r: random.Random) -> Any:
        return r.choice((None, self.zero, self.one))

    def integers(self, r: random.Random, count: int, most: int = 3) -> Any:
        return (ctypes.c_int64 * count)(*(r.randrange(most) for _ in range(count)))

    def spoil(self, r: random.Random, s: Struct, kept: tuple[str, ...] = ()) -> None:
        """Sets one field to null or to a number that is unlikely to be right."""
        field = r.choice([f for f in s.layout if f and f not in kept])
        if field == "data":
            s.set(field, r.choice((0, 2**64 - 1, 2**64 - 4)))
        elif field == "byte_offset":
            s.set(field, r.choice(FAR))
        elif s.layout[field][1] == 8 and s.name != "dtype" and field not in (
            "size", "seed", "device", "seconds", "self", "user", "stream",
        ):  # fmt: skip
            s.set(field, 0)
        elif field == "device" and s.layout[field][1] == 8:
            s.set(field, r.choice(NUMBERS) % 2**32 | (r.choice(NUMBERS) % 2**32) << 32)
        elif field == "size":
            s.set(field, r.choice((0, 1, 8, len(s.bytes) - 1, len(s.bytes) + 64, 2**63)))
        else:
            s.set(field, r.choice(NUMBERS))

    def tensor(self, r: random.Random, shape: tuple[int, ...], fresh: bool = False) -> Struct:
        # Sixteen entries, so that every plausible rank has its sizes.
        sizes = (ctypes.c_int64 * 16)(*shape, *(r.randrange(1, 3) for _ in range(16 - len(shape))))
        steps = None
        if fresh or r.random() < 0.3:
            packed = [0] * 16
            unit = 1
            for i in reversed(range(len(shape))):
                packed[i], unit = unit, unit * max(shape[i], 1)
            steps = (ctypes.c_int64 * 16)(*packed)
            if not fresh and r.random() < 0.3:
                steps[r.randrange(16)] = r.choice((-4, -1, 0, 3, 2**62, -(2**62), 2**63 - 1))
        if r.random() < 0.05:
            sizes[r.randrange(4)] = r.choice((-1, -(2**63), 2**62, 2**63 - 1, 2**57))
        bits = (2, 32)
        if r.random() < 0.06:
            bits = r.choice(((2, 16), (4, 16), (2, 64), (0, 8), (12, 8)))
        dtype = bits[0] | bits[1] << 8 | 1 << 16
        where = 0 if fresh else self.middle + r.randrange(8) * 128
        made = Struct(
            "tensor", data=where, device=1, ndim=len(shape), dtype=dtype, shape=sizes,
            strides=steps, byte_offset=0,
        )  # fmt: skip
        if r.random() < 0.05:
            self.spoil(r, made)
        return made

    # Dimensions of inputs and results by letter; a product is written "H*D". An input may be
    # absent.
    FORMS: ClassVar[dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]]] = {
        "matmul": (("TC", "CT"), ("TT",)),
        "rms_norm": (("TC", "C"), ("TC",)),
        "rms_norm_": (("TC", "C"), ()),
        "add_rms_norm": (("TC", "C", "TC"), ("TC", "TC")),
        "add_rms_norm_": (("TC", "TC", "C"), ()),
        "rms_norm_backward": (("TC", "TC", "C"), ("TC", "C")),
    }  # fmt: skip

    def forms_of_registry(self) -> dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """Every other operator whose tensors are floats of plain sizes. The harness covers invalid
        indices and codes."""
        from dlblas.harness import load_registry

        forms = {}
        for facts in load_registry().operators.values():
            tensors = {t["name"]: t for t in facts["tensors"]}
            dims = [d for t in (*tensors.values(), *facts["results"]) for d in t["dims"]]
            plain = all(d["divisor"] == 1 and not d["addend"] and len(d["terms"]) == 1
                        and d["terms"][0]["coefficient"] == 1 for d in dims)  # fmt: skip
            if not plain or any("f32" not in t["dtypes"] for t in tensors.values() if t["dtypes"]):
                continue
            texts = {
                n: tuple(d["text"].lstrip("*").split("|")[-1] for d in t["dims"])
                for n, t in (*tensors.items(), *((r["name"], r) for r in facts["results"]))
            }
            params = [p["name"] for p in facts["forms"][0]["params"] if p["kind"] == "tensor"]
            if len(params) <= 16 and len(facts["results"]) <= 4:
                results = tuple(texts[r["name"]] for r in facts["results"])
                forms[facts["forms"][0]["name"]] = (tuple(texts[n] for n in params), results)
        return forms

    def op(self, r: random.Random, name: str) -> Any:
        return None if r.random() < 0.02 else self.ops[name]

    def args(self, r: random.Random, fresh: float = 0.3) -> tuple[str, Struct]:
        name = r.choice(list(self.FORMS if r.random() < 0.5 else self.forms))
        inputs, results = self.forms[name]
        given: dict[str, int] = {"T": r.randrange(3), "C": r.choice((1, 3, 8))}

        def size(of: Any) -> tuple[int, ...]:
            """The sizes of a tensor; letters other than T and C are small."""
            return tuple(
                math.prod(given.setdefault(letter, r.randrange(3)) for letter in text.split("*"))
                for text in of
            )

        values = []
        for of in inputs:
            tensor = self.tensor(r, size(of))
            absent = name not in self.FORMS and r.random() < 0.15  # with others behind it
            value = Struct("value", kind=0 if absent else 1)
            value.set("as", tensor if r.random() < 0.97 and not absent else 0)
            values.append(value)
        if r.random() < 0.15:
            kind = r.choice((0, 2, 3, 4, 5, 6, -1, 2**31 - 1))
            value = Struct("value", kind=kind)
            value.set("as", self.text(r) if kind == 5 else r.choice((0, 1, 5, 1e-6, float("nan"))))
            values.insert(r.randrange(len(values) + 1), value)
        outputs = [self.tensor(r, size(of), r.random() < fresh) for of in results]
        count = len(values)
        named = r.randrange(count + 1) if r.random() < 0.1 else 0
        while len(values) < 16:
            values.append(Struct("value"))
        while len(outputs) < 4:
            outputs.append(Struct("tensor"))
        made = Struct(
            "args", values=structs(values), num_values=count, num_named=named,
            names=pointers([self.text(r) for _ in range(16 if named else 1)]),
            outputs=structs(outputs), num_outputs=len(results), flags=r.choice((0, 1, 2, 3)),
        )  # fmt: skip
        self.made = made.kept[-1] if results else None
        if r.random() < 0.1:
            self.spoil(r, made)
        return name, made

    def context(self, r: random.Random) -> Struct | None:
        if r.random() < 0.7:
            return None
        made = Struct("context", num_threads=r.choice((0, 1, 2, 3, -1, -(2**31))))
        if r.random() < 0.2:
            made.set("new_output", self.function(r))
        if r.random() < 0.3:
            self.spoil(r, made, ("num_threads",))  # a request for a thousand gets a thousand
        return made

    # ---- what comes out ----

    def checked(self, status: int, allowed: tuple[int, ...] = ()) -> bool:
        if status == 0:
            return True
        error = Struct("error")
        self.lib.dlblas_last_error(ctypes.c_void_p(error.address))
        kind = int.from_bytes(bytes(error.bytes[8:12]), "little")
        at = int.from_bytes(bytes(error.bytes[16:24]), "little")
        words = ctypes.string_at(at).decode(errors="replace")
        assert kind == status, (status, kind, words)
        assert 0 < status < INTERNAL or status in allowed, words
        assert "expected" in words and "got" in words, words
        return False

    def taken(self, text: Any) -> None:
        if text.value:
            ctypes.string_at(text.value).decode()
            self.lib.dlblas_free(text)

    def place(self, r: random.Random) -> tuple[Any, Any]:
        """A text and the pointer through which it is returned; the pointer may be null."""
        text = ctypes.c_void_p()
        return text, None if r.random() < 0.05 else ctypes.byref(text)

    # ---- the functions ----

    def _dlblas_call(self, r: random.Random) -> bool:
        name, args = self.args(r)
        before = bytes(self.made) if self.made is not None else b""
        side = self.context(r)
        status = self.lib.dlblas_call(self.op(r, name), _pointer(args), _pointer(side))
        good = self.checked(status)
        if not good:
            assert bytes(self.memory) == self.plain, "refused, and written"
        ctypes.memset(self.memory, 0, len(self.memory))
        size = LAYOUTS["tensor"][""][1]
        for i in range(len(self.forms[name][1])):  # results that the library made
            at = i * size
            if good and before and not any(before[at : at + 8]) and side is None:
                self.lib.dlblas_free(ctypes.c_void_p.from_buffer(self.made, at))
        return good

    def _dlblas_explain(self, r: random.Random) -> bool:
        name, args = self.args(r)
        text, to = self.place(r)
        side = _pointer(self.context(r))
        form = r.choice((0, 1, 0, 1, 2, -1, 256))
        status = self.lib.dlblas_explain(self.op(r, name), _pointer(args), side, form, to)
        self.taken(text)
        return self.checked(status)

    def _dlblas_warmup(self, r: random.Random) -> bool:
        name, args = self.args(r)
        side = _pointer(self.context(r))
        return self.checked(self.lib.dlblas_warmup(self.op(r, name), _pointer(args), side))

    def _rows(self, r: random.Random) -> tuple[Any, Any]:
        count = ctypes.c_int64(r.choice((0, 0, 1, 2, 8, -1, -(2**63))))
        return (None if r.random() < 0.1 else self.integers(r, 8)), count

    def _dlblas_reference(self, r: random.Random) -> bool:
        name, args = self.args(r)
        rows, count = self._rows(r)
        room = [None if r.random() < 0.03 else (ctypes.c_double * 128)() for _ in range(9)]
        places = [None if r.random() < 0.03 else pointers(room[i : i + 4]) for i in (0, 4)]
        bounds = None if r.random() < 0.03 else (ctypes.c_double * 12)()
        return self.checked(
            self.lib.dlblas_reference(
                self.op(r, name), _pointer(args), rows, count, *places, bounds
            )
        )

    def _dlblas_make_input(self, r: random.Random) -> bool:
        name = r.choice(list(self.FORMS))
        sizes = (r.randrange(3), r.choice((1, 3, 8)))
        to = self.tensor(r, sizes[: r.randrange(1, 3)])
        letters = None if r.random() < 0.05 else (ctypes.c_int64 * 16)(*([8] * 16))
        tensor = r.choice((b"x", b"weight", b"a", b"b", b"y", b"eps", self.text(r)))
        where = None if r.random() < 0.03 else _pointer(to)
        seed = ctypes.c_uint64(r.choice((0, 1, 2**64 - 1)))
        status = self.lib.dlblas_make_input(self.op(r, name), tensor, letters, seed, where)
        assert status == 0 or bytes(self.memory) == self.plain, "refused, and written"
        ctypes.memmove(self.memory, self.plain, len(self.plain))
        return self.checked(status)

    def _dlblas_verify(self, r: random.Random) -> bool:
        name, args = self.args(r, fresh=0.05)
        rows, count = self._rows(r)
        verdict = Struct("verdict")
        if r.random() < 0.05:
            self.spoil(r, verdict)
        where = None if r.random() < 0.02 else _pointer(verdict)
        return self.checked(
            self.lib.dlblas_verify(self.op(r, name), _pointer(args), rows, count, where)
        )

    def _search(self, r: random.Random, function: Any) -> bool:
        name, args = self.args(r)
        options = Struct("tune_options", seconds=1e-3, max_evaluations=1, measure_in=2)
        odd = r.randrange(12)
        if odd < 3:
            options.set("strategy", self.text(r))
        elif odd < 5:
            options.set("implementations", self.text(r))
        elif odd < 8:
            count = r.choice((0, 1, 8, -1, -(2**31), 4097, 2**31 - 1))
            options.set("num_knobs", count)
            for field in ("knob_implementations", "knob_names", "knob_values"):
                options.set(field, self.texts(r))
        elif odd < 9:
            options.set("measure_in", r.choice((3, -1, 256, 2**31 - 1)))
        elif odd < 10:
            options.set("seconds", r.choice((float("nan"), float("inf"), -float("inf"))))
        elif odd < 11:
            options.set("where", self.function(r))
            options.set("on_event", self.function(r))
        else:
            self.spoil(r, options, ("max_evaluations", "measure_in", "num_knobs", "seconds"))
        text, to = self.place(r)
        side = _pointer(self.context(r))
        status = function(self.op(r, name), _pointer(args), side, _pointer(options), to)
        self.taken(text)
        return self.checked(status)

    def _dlblas_tune(self, r: random.Random) -> bool:
        return self._search(r, self.lib.dlblas_tune)

    def _dlblas_get_op(self, r: random.Random) -> bool:
        return self._search(r, self.lib.dlblas_get_op)

    def _dlblas_missed_mark(self, r: random.Random) -> bool:
        mark = ctypes.c_uint64()
        to = None if r.random() < 0.1 else ctypes.byref(mark)
        return self.checked(self.lib.dlblas_missed_mark(to))

    def _dlblas_missed(self, r: random.Random) -> bool:
        text, to = self.place(r)
        mark = ctypes.c_uint64(r.choice((0, 1, 2**63, 2**64 - 1)))
        status = self.lib.dlblas_missed(mark, to)
        self.taken(text)
        return self.checked(status)

    def _dlblas_met(self, r: random.Random) -> bool:
        text, to = self.place(r)
        mark = ctypes.c_uint64(r.choice((0, 1, 2**63, 2**64 - 1)))
        status = self.lib.dlblas_met(mark, to)
        self.taken(text)
        return self.checked(status)

    def _dlblas_tune_key(self, r: random.Random) -> bool:
        options = Struct("tune_options", seconds=1e-3, max_evaluations=1, measure_in=2)
        key = self.text(r)
        if r.random() < 0.5:
            tensors = "x:f32:contiguous:16 y:f32:contiguous:16"
            key = f"op=softmax\ndims=T=4 C={r.choice((8, -1, 'C'))}\ntensors={tensors}".encode()
        text, to = self.place(r)
        status = self.lib.dlblas_tune_key(key, _pointer(options), to)
        self.taken(text)
        return self.checked(status)

    def _dlblas_pin(self, r: random.Random) -> bool:
        name = r.choice(list(self.ops))
        good = self.checked(self.lib.dlblas_pin(self.op(r, name), self.text(r), self.text(r)))
        self.lib.dlblas_pin(self.ops[name], None, None)
        return good

    def _dlblas_register(self, r: random.Random) -> bool:
        names = (b"k", b"m", b"C", b"", b"1x", b"k", None)
        knobs = []
        for _ in range(4):
            knob = Struct(
                "knob", name=r.choice(names), values=self.integers(r, 8, 40),
                labels=self.texts(r) if r.random() < 0.3 else 0, num_values=r.randrange(9),
            )  # fmt: skip
            if r.random() < 0.2:
                self.spoil(r, knob, ("num_values",))
            if r.random() < 0.1:
                knob.set("num_values", r.choice((-1, 4097, 2**31 - 1, -(2**31))))
            knobs.append(knob)
        text = Struct("cuda_text", text=self.text(r), entry=self.text(r), shared_bytes=self.text(r))
        made = Struct(
            "implementation", name=b"fuzzed" if r.random() < 0.9 else self.text(r),
            source_hash=self.text(r), device=r.choice((1, 1, 1, 2)), flags=r.randrange(8),
            knobs=structs(knobs), num_knobs=r.choice((0, 0, 1, 2, 4)), step=self.zero,
            configs=self.integers(r, 64, 40) if r.random() < 0.3 else 0, num_configs=r.randrange(5),
            preset=self.integers(r, 16, 40) if r.random() < 0.2 else 0,
            cuda=text if r.random() < 0.1 else 0,
        )  # fmt: skip
        kept = ("num_knobs", "num_configs", "configs")
        for _ in range(r.choice((1, 1, 1, 2))):  # a good one is kept for good: they are few
            self.spoil(r, made, kept if r.random() < 0.98 else ())
        if r.random() < 0.2:
            made.set("num_knobs", r.choice((-1, 17, 2**31 - 1, -(2**31))))
        elif r.random() < 0.2:
            made.set("num_configs", r.choice((-1, 2**20 + 1, 2**31 - 1, -(2**31))))
        name = r.choice(list(self.FORMS))
        good = self.checked(self.lib.dlblas_register(self.op(r, name), _pointer(made)))
        self.lib.dlblas_unregister(self.ops[name], b"fuzzed")
        return good

    def _dlblas_unregister(self, r: random.Random) -> bool:
        name = r.choice(list(self.ops))
        return self.checked(self.lib.dlblas_unregister(self.op(r, name), self.text(r)))

    def _dlblas_register_operator(self, r: random.Random) -> bool:
        schema = bytearray(r.choice(SCHEMAS).encode())
        for _ in range(r.choice((0, 1, 2, 3))):  # behind the name
            schema[r.randrange(9, len(schema))] = r.randrange(1, 256)
        made = Struct(
            "operator_def", schema=bytes(schema), inplace=self.texts(r),
            num_inplace=r.choice((0, 0, 0, 1, 8, -1, 65, 2**31 - 1)), whole=r.randrange(3),
            formula=self.text(r), source_hash=self.text(r), reference=self.one,
        )  # fmt: skip
        if r.random() < 0.5:
            self.spoil(r, made, ("num_inplace",))
        _, to = self.place(r)
        good = self.checked(self.lib.dlblas_register_operator(_pointer(made), to))
        return good

    def _dlblas_op(self, r: random.Random) -> bool:
        _, to = self.place(r)
        return self.checked(self.lib.dlblas_op(self.text(r), to))

    def _dlblas_written(self, r: random.Random) -> bool:
        op = self.op(r, r.choice(list(self.ops)))
        at = ctypes.c_int32(r.choice(NUMBERS) % 2**32)
        return self.lib.dlblas_written(op, at, self.text(r)) is not None

    def _dlblas_cache(self, r: random.Random) -> bool:
        text, to = self.place(r)
        command = self.text(r)
        if command and b"/" in command and command.startswith((b"export", b"merge", b"import")):
            command = b"path"  # random bytes that name a file
        status = self.lib.dlblas_cache(command, to)
        self.taken(text)
        return self.checked(status)

    def _dlblas_info(self, r: random.Random) -> bool:
        text, to = self.place(r)
        status = self.lib.dlblas_info(to)
        self.taken(text)
        return self.checked(status)

    def _dlblas_op_info(self, r: random.Random) -> bool:
        text, to = self.place(r)
        status = self.lib.dlblas_op_info(self.op(r, r.choice(list(self.ops))), to)
        self.taken(text)
        return self.checked(status)

    def _dlblas_add_library_path(self, r: random.Random) -> bool:
        return self.checked(self.lib.dlblas_add_library_path(r.choice((None, b"", b":"))))

    def _dlblas_set_log(self, r: random.Random) -> bool:
        return self.checked(self.lib.dlblas_set_log(None, r.choice((None, b"x"))))

    def _dlblas_set_worker(self, r: random.Random) -> bool:
        lists = [None if r.random() < 0.2 else pointers([b"x", b"A=b", None]) for _ in range(2)]
        return self.checked(self.lib.dlblas_set_worker(*lists))

    def _dlblas_worker_main(self, r: random.Random) -> bool:
        return bool(self.lib.dlblas_worker_main(r.choice((-1, -(2**31), 2**31 - 1, 10**6))) == 0)

    def _dlblas_bench_host(self, r: random.Random) -> bool:
        name, args = self.args(r)  # a good one takes a fifth of a second
        return self.checked(self.lib.dlblas_bench_host(self.op(r, name), _pointer(args), None))

    def _dlblas_bench_machine(self, r: random.Random) -> bool:
        machine = Struct("machine", device=r.choice((3, 257, 1 << 32, 2 | 65536 << 32, 2**31)))
        self.spoil(r, machine, ("device",))
        where = None if r.random() < 0.1 else _pointer(machine)
        threads = ctypes.c_int32(r.choice(NUMBERS) % 2**32)
        return self.checked(
            self.lib.dlblas_bench_machine(threads, ctypes.c_int64(r.choice(NUMBERS)), where)
        )

    def _dlblas_keep_error(self, r: random.Random) -> bool:
        error = Struct(
            "error", status=r.choice((0, 1, 4, 10, 11, -1)), message=b"x: expected y, got z",
            op=self.text(r), argument=self.text(r), expected=self.text(r), got=self.text(r),
        )  # fmt: skip
        if r.random() < 0.3:
            self.spoil(r, error, ("message",))
        status = self.lib.dlblas_keep_error(_pointer(error) if r.random() < 0.9 else None)
        return self.checked(status, (INTERNAL,))

    def _dlblas_last_error(self, r: random.Random) -> bool:
        error = Struct("error")
        self.spoil(r, error)
        self.lib.dlblas_last_error(_pointer(error) if r.random() < 0.9 else None)
        return True

    def _dlblas_get_counters(self, r: random.Random) -> bool:
        counters = Struct("counters")
        self.spoil(r, counters)
        self.lib.dlblas_get_counters(_pointer(counters) if r.random() < 0.9 else None)
        return True

    def _dlblas_fail(self, r: random.Random) -> bool:
        self.lib.dlblas_fail(self.text(r))
        return True

    def _dlblas_abi_version(self, r: random.Random) -> bool:
        return bool(self.lib.dlblas_abi_version())

    def _dlblas_version(self, r: random.Random) -> bool:
        return bool(self.lib.dlblas_version())

    def __call__(self, r: random.Random) -> bool:
        return bool(getattr(self, r.choice(self.usual))(r))


def _pointer(s: Struct | None) -> Any:
    return None if s is None else s.bytes  # which keeps what it leads to


if __name__ == "__main__":
    os.environ.setdefault("DLBLAS_NUM_THREADS", "2")
    sys.exit(calls.main("c_abi", Target))
