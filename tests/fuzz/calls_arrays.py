"""Array protocols with odd producers: `__dlpack__`, `__array_interface__`,
`__cuda_array_interface__`, NumPy's own arrays and objects that stand in for one.

In: a random number generator. A producer whose description could be true describes memory that
exists; every other description is detectably false. Each call then returns results or raises a
`dlblas.Error` that says where, and changes no memory that it may not write. Read next: calls.py,
python/dlblas/_hooks.py, bindings/python/array.cpp.
"""

from __future__ import annotations

import ctypes
import itertools
import random
import sys
from typing import Any, ClassVar

import calls

SPAN = 1 << 16  # bytes of memory; producers start in the middle
REACH = 1 << 14  # and stay within this
HUGE = (2**31, 2**32 + 1, 2**57, 2**62, 2**63 - 1, 2**63, 2**64, 10**30)
NUMBERS = (*range(-9, 10), 255, 256, 65536, *HUGE, *(-n for n in HUGE))
KINDS = {"f2": 2, "f4": 4, "f8": 8, "i1": 1, "i4": 4, "i8": 8, "u1": 1, "b1": 1}


class RaisedError(Exception):
    """Raised by a producer."""


class UntidyError(RaisedError):
    def __str__(self) -> str:
        raise RaisedError

    __repr__ = __str__


class Index:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __index__(self) -> Any:
        return self.value

    __float__ = __index__


class Hostile:
    """Raises RaisedError or UntidyError on every access."""

    def __getattr__(self, name: str) -> Any:
        raise RaisedError(name)

    def _raise(self, *_: Any, **__: Any) -> Any:
        raise UntidyError

    __index__ = __float__ = __bool__ = __len__ = __iter__ = __eq__ = __str__ = __repr__ = _raise
    __hash__ = None  # type: ignore[assignment]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("type", ctypes.c_int32), ("index", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class Plain(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", DLTensor),
    ]  # fmt: skip


def fits(shape: Any, steps: Any, size: int) -> bool:
    """False only for a believable description that the memory here does not back."""
    try:
        if len(shape) > 8 or any(n < 0 for n in shape):
            return True
        packed, low, high = size, 0, 0
        walk = list(steps) if steps is not None else []
        for n in reversed(shape):
            if steps is None:
                walk.insert(0, packed)
            packed *= max(n, 1)
        if packed > size << 56:
            return True  # more than there can be
        for n, step in zip(shape, walk, strict=True):
            low, high = low + min(0, (n - 1) * step), high + max(0, (n - 1) * step)
        if max(-low, high) > size << 60:
            return True
        return packed <= REACH and -low <= REACH and high <= REACH
    except (TypeError, ValueError):
        return True  # no numbers


class Target:
    def __init__(self) -> None:
        import dlblas
        import ml_dtypes
        import numpy

        self.dlblas, self.numpy, self.bf16 = dlblas, numpy, ml_dtypes.bfloat16
        self.memory = (ctypes.c_uint8 * SPAN)()
        self.middle = ctypes.addressof(self.memory) + SPAN // 2
        self.plain = bytes(self.memory)
        self.capsule = ctypes.pythonapi.PyCapsule_New
        self.capsule.restype = ctypes.py_object
        self.capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.names = [ctypes.c_char_p(n) for n in (b"dltensor", b"dltensor_versioned", b"other")]
        self.kept: list[Any] = []

    # ---- producers ----

    def shape(self, r: random.Random, like: tuple[int, ...]) -> Any:
        """Usually the shape that the operator expects."""
        if r.random() < 0.85:
            return like
        shape = [r.choice(NUMBERS) if r.random() < 0.3 else r.randrange(4) for _ in range(
            r.choice((0, 1, 2, 2, 3, 8, 9, 40)))]  # fmt: skip
        return r.choice((tuple, list))(shape)

    def steps(self, r: random.Random, shape: Any, size: int) -> Any:
        if r.random() < 0.6:
            return None
        count = len(shape) + (r.randrange(-1, 2) if r.random() < 0.2 else 0)
        unit = size if r.random() < 0.7 else 1
        steps = [
            r.choice(NUMBERS) if r.random() < 0.15 else r.randrange(-8, 9) * unit
            for _ in range(max(count, 0))
        ]
        return r.choice((tuple, tuple, list))(steps)

    def geometry(self, r: random.Random, like: tuple[int, ...], size: int) -> tuple[Any, Any]:
        for _ in range(20):
            shape = self.shape(r, like)
            steps = self.steps(r, shape, size)
            if fits(shape, steps, size):
                return shape, steps
        return like, None

    def address(self, r: random.Random) -> int:
        return self.middle + (r.randrange(64) if r.random() < 0.3 else 0)

    def anything(self, r: random.Random) -> Any:
        return r.choice((
            None, True, 0, -1, 1.5, float("nan"), "", "x", b"<f4", (), (1, 2), [], {}, object(),
            Hostile(), Index(r.choice(NUMBERS)), Index("x"), itertools.count(), lambda *a, **k: 0,
            r.choice(NUMBERS), "\ud800", type, ...,
        ))  # fmt: skip

    def interface(self, r: random.Random, like: tuple[int, ...]) -> Any:
        kind = "f4" if r.random() < 0.8 else r.choice(list(KINDS))
        shape, steps = self.geometry(r, like, KINDS[kind])
        entries: dict[str, Any] = {
            "version": 3, "typestr": ("<" if KINDS[kind] > 1 else "|") + kind, "shape": shape,
            "strides": steps, "data": (self.address(r), r.random() < 0.3),
        }  # fmt: skip
        for _ in range(r.choice((0, 0, 0, 1, 2))):
            key = r.choice(("typestr", "shape", "strides", "data", "mask", "stream", "descr", "x"))
            what = r.random()
            if what < 0.2:
                entries.pop(key, None)
            elif what < 0.6 or key not in ("typestr", "data", "shape"):
                entries[key] = self.anything(r)
            elif key == "typestr":
                bits = r.choice((0, 1, 3, 16, 32, 36, 4000, 10**20, "", "\u0664", "4 "))
                entries[key] = r.choice("<>|=x") + r.choice("fiubcOVSUx") + str(bits)
            elif key == "data":
                odd = r.choice((0, -1, 2**64 - r.randrange(9), 2**64, 1.0, None, "x", Hostile()))
                entries[key] = r.choice(((odd, False), [odd, True], (odd,), (odd, Hostile())))
            else:
                entries[key] = tuple(self.anything(r) for _ in range(r.randrange(4)))
        # The changes above may have made the description believable: then it must be true as well.
        typestr = entries.get("typestr")
        size = KINDS.get(str(typestr)[1:3]) if isinstance(typestr, str) else 4
        given, walk = entries.get("shape"), entries.get("strides")
        if isinstance(given, (tuple, list)) and not fits(_plain(given), _plain(walk), size or 4):
            entries["shape"], entries["strides"] = like, None
        data = entries.get("data")
        if isinstance(data, tuple) and len(data) == 2:
            start = data[0].value if isinstance(data[0], Index) else data[0]
            if isinstance(start, int) and 0 < start < 2**64 - 64:
                entries["data"] = (self.address(r), data[1])
        what = r.random()
        name = "__cuda_array_interface__" if r.random() < 0.2 else "__array_interface__"
        if what < 0.95:
            return type("Interface", (), {name: entries})()
        odd = self.anything(r)
        if what < 0.98:
            return type("Interface", (), {name: odd})()
        return type("Interface", (), {name: property(Hostile._raise)})()

    def tensor(self, r: random.Random, like: tuple[int, ...]) -> DLTensor:
        code, bits = r.choice((*[(2, 32)] * 9, (2, 16), (4, 16), (2, 64), (0, 8), (12, 8)))
        shape, steps = self.geometry(r, like, bits // 8)
        numbers = [n if abs(n) < 2**63 else 2**63 - 1 for n in shape]
        rank = min(len(numbers), 12)
        sizes = (ctypes.c_int64 * 16)(*numbers[:rank])
        walk = None
        if steps is not None and len(steps) == len(shape):
            elements = [max(-(2**63), min(s // (bits // 8), 2**63 - 1)) for s in steps]
            if fits(numbers, [s * (bits // 8) for s in elements], bits // 8):
                walk = (ctypes.c_int64 * 16)(*elements[:rank])
        if walk is None and not fits(numbers, None, bits // 8):
            sizes, rank = (ctypes.c_int64 * 16)(*like), len(like)
        t = DLTensor(
            self.address(r), 1, 0, rank, code, bits, 1, ctypes.addressof(sizes),
            ctypes.addressof(walk) if walk is not None else None, 0,
        )  # fmt: skip
        self.kept += [sizes, walk, t]
        if r.random() < 0.3:
            field = r.choice(("data", "type", "index", "ndim", "dtype", "lanes", "shape", "off"))
            if field == "data":
                t.data = r.choice((None, 2**64 - 1, 2**64 - 4))
            elif field == "ndim":  # more entries than are given are 0
                t.ndim = r.choice((-1, 9, 2**31 - 1, -(2**31), rank, 0))
            elif field == "dtype":
                t.code, t.bits = r.randrange(256), r.choice((0, 1, 2, 3, 7, 65, 128, 255))
            elif field == "lanes":
                t.lanes = r.choice((0, 2, 65535))
            elif field == "shape":
                t.shape = None
            elif field == "off":
                t.byte_offset = r.choice((0, 4, 8, 2**64 - 1, 2**64 - 8))
            elif field == "type":
                t.type = r.choice((0, 3, 10, 13, 255, 257, 513, -255, -1, 2**31 - 1, -(2**31)))
            else:
                t.index = r.choice((1, -1, 65536, 2**31 - 1, -(2**31)))
        return t

    def exporter(self, r: random.Random, like: tuple[int, ...]) -> Any:
        made: Any
        kind = r.random()
        if kind < 0.15:
            made = self.anything(r)
        elif kind < 0.4:
            made = self.numpy.zeros(like, r.choice(("f4", "f8", "i4"))).__dlpack__()
            if r.random() < 0.2:
                self.numpy.from_dlpack(_Once(made))  # a used one
        else:
            versioned = r.random() < 0.4
            holder: Any = Plain(self.tensor(r, like))
            if versioned:
                major = 1 if r.random() < 0.8 else r.choice((0, 2, 2**32 - 1))
                flags = r.choice((0, 0, 1, 2, 2**64 - 1))
                holder = Versioned(major, 0, None, None, flags, self.tensor(r, like))
            self.kept.append(holder)
            name = self.names[versioned] if r.random() < 0.95 else self.names[2]
            made = self.capsule(ctypes.addressof(holder), name, None)
        strict = r.random() < 0.2
        device = (1, 0) if r.random() < 0.9 else r.choice(((2, 0), (3, 1), self.anything(r)))
        failing = r.random() < 0.05

        class Exporter:
            def __dlpack__(self, **options: Any) -> Any:
                if failing:
                    raise UntidyError
                if strict and options:
                    raise TypeError
                return made

            def __dlpack_device__(self) -> Any:
                return device

        return Exporter()

    def ndarray(self, r: random.Random, like: tuple[int, ...]) -> Any:
        np = self.numpy
        dtypes = ("f4", "f4", "f2", "f8", ">f4", "i4", "u2", "c8", "O", "S3", "M8[s]", "f4,i4", "?")
        a = np.zeros(like, r.choice((*dtypes, self.bf16)))
        kind = r.randrange(8)
        if kind == 0:
            a = np.lib.stride_tricks.as_strided(a, a.shape, [0] * a.ndim)
        elif kind == 1 and a.ndim:
            a = a[::-1]
        elif kind == 2:
            a.flags.writeable = False
        elif kind == 3:
            a = a.reshape((1,) * r.randrange(9) + like)
        elif kind == 4:
            lie = {"__array_interface__": self.anything(r), "dtype": self.anything(r),
                   "__dlpack__": self.anything(r), "shape": self.anything(r)}  # fmt: skip
            a = a.view(type("Lying", (np.ndarray,), lie))
        elif kind == 5:
            a = np.ma.masked_array(a)
        elif kind == 6:
            a = np.frombuffer(bytes(a.nbytes + 1), np.uint8)[1:]
        return a

    def other(self, r: random.Random, like: tuple[int, ...]) -> Any:
        dlblas = self.dlblas
        kind = r.randrange(5)
        if kind == 0:
            dtype = r.choice(("f32", "bf16", "f64"))
            try:
                return dlblas.Spec(self.shape(r, like), dtype, self.steps(r, like, 4))
            except dlblas.Error:
                return None
        if kind == 1:
            array = dlblas.Array(like, r.choice(("f32", "bf16", "i64")))
            for name in ("shape", "data", "dtype"):
                if r.random() < 0.3:
                    try:
                        setattr(array, name, self.anything(r))
                    except AttributeError:
                        continue
                    raise AssertionError(f"Array.{name} can be set")
            return array
        if kind == 2:  # says that it is of another class
            known = r.choice((dlblas.Spec, self.numpy.ndarray, dlblas.Array, tuple, int))
            lie = {"__class__": property(lambda self: known), "_exchange": (1, 2)}
            return type("Lying", (), lie)()
        return self.anything(r)

    def producer(self, r: random.Random, like: tuple[int, ...]) -> Any:
        kind = r.random()
        if kind < 0.35:
            return self.interface(r, like)
        if kind < 0.7:
            return self.exporter(r, like)
        if kind < 0.85:
            return self.ndarray(r, like)
        return self.other(r, like)

    # ---- calls ----

    FORMS: ClassVar[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
        "matmul": (("TC", "CT"), ("TT",)),
        "rms_norm": (("TC", "C"), ("TC",)),
        "rms_norm_": (("TC", "C"), ()),
        "add_rms_norm": (("TC", "C", "TC"), ("TC", "TC")),
        "add_rms_norm_": (("TC", "TC", "C"), ()),
        "rms_norm_backward": (("TC", "TC", "C"), ("TC", "C")),
    }  # fmt: skip

    def __call__(self, r: random.Random) -> bool:
        dlblas, np = self.dlblas, self.numpy
        self.kept.clear()
        name = r.choice(list(self.FORMS))
        inputs, results = self.FORMS[name]
        if name == "matmul" and r.random() < 0.5:  # a batch: dlblas/_other_forms.py
            inputs, results = ("GTC", "GCT"), ("GTT",)
        sizes = {"G": r.randrange(3), "T": r.randrange(4), "C": r.choice((1, 3, 8))}

        def shape(letters: str) -> tuple[int, ...]:
            return tuple(sizes[letter] for letter in letters)

        odd = {r.randrange(len(inputs))} | {i for i in range(len(inputs)) if r.random() < 0.2}
        args = [
            self.producer(r, shape(of)) if i in odd else np.zeros(shape(of), "f4")
            for i, of in enumerate(inputs)
        ]
        kwargs: dict[str, Any] = {}
        out: Any = None
        if results and r.random() < 0.25:
            made = [self.producer(r, shape(of)) for of in results]
            out = made[0] if len(made) == 1 else tuple(made)
            if r.random() < 0.1:
                out = self.anything(r)
        if name != "matmul" and r.random() < 0.2:
            key = r.choice(("eps", "weight_offset", "cast_before_weight", "no_such", "stream"))
            kwargs[key] = self.anything(r)
        how = r.random()
        try:
            if how < 0.8:
                getattr(dlblas, name)(*args, **kwargs, **({} if out is None else {"out": out}))
            elif how < 0.86:
                dlblas.explain(name, *args, **kwargs)
            elif how < 0.9:
                dlblas.warmup(name, *args, **kwargs)
            elif how < 0.95 or out is None:
                dlblas.reference(name, tuple(args), kwargs)
            else:
                dlblas.verify(name, tuple(args), out, kwargs)
        except dlblas.Error as error:
            assert str(error).partition(":")[0] in (name, name.rstrip("_"), "dlblas"), error
            assert "; expected " in str(error), error
            assert bytes(self.memory) == self.plain, "refused, and written"
            return False
        if (how < 0.8 and (out is not None or name.endswith("_"))) or out is not None:
            ctypes.memset(self.memory, 0, SPAN)
        assert bytes(self.memory) == self.plain, "written"
        return True


def _plain(numbers: Any) -> Any:
    if not isinstance(numbers, (tuple, list)):
        return None
    return [n.value if isinstance(n, Index) else n for n in numbers]


class _Once:
    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


if __name__ == "__main__":
    sys.exit(calls.main("arrays", Target))
