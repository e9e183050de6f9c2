# Made by tools/generate.cpp from the operators' schemas. Do not edit.
"""The operators, one function each and one per in-place form.

An array is anything with __dlpack__ or the array interface (NumPy, torch, ...).
Results have the type of the first array; `out` takes the destinations in result order;
`stream` is the CUDA stream's address, for arrays whose library says none.
"""

from typing import Any, Literal, TypeAlias, TypeVar

__all__ = [
    "odd_after",
    "odd_no_tensor",
    "odd_two",
    "odd_two_",
    "switch",
]

_A = TypeVar("_A")
_Array: TypeAlias = Any

def odd_two(
    x: _A,
    bias: _Array | None = None,
    mode: Literal["", "1x128", "a-b", "a_b"] = "1x128",
    scale: float = 1e-6,
    *,
    steps: int = 3,
    flag: bool = True,
    out_dtype: str | None = None,
    out: tuple[_A, _A] | None = None,
    stream: int | None = None,
) -> tuple[_A, _A]:
    """y = f(x)

    odd_two(x: f[*T, 2F], bias: like(x)|f32[F]?, mode: ""|"1x128"|"a-b"|"a_b" = "1x128", scale:
    float = 1e-6, *, steps: int = 3 key, flag: bool = true, out_dtype: dtype(f|f8) = none) -> (y:
    out_dtype|like(x)[*T, F], scale_out: f32[*T, F/128]) where T: bucket(tokens)

    x: f[*T, 2F].
    bias: like(x)|f32[F]?, may be absent.
    mode: one of "", "1x128", "a-b", "a_b".
    scale: float.
    steps: integer.
    flag: boolean.
    out_dtype: a dtype: f32, f16, bf16, f8e4m3, f8e5m2.
    """
    ...

def odd_two_(
    x: _Array,
    bias: _Array | None = None,
    mode: Literal["", "1x128", "a-b", "a_b"] = "1x128",
    *,
    stream: int | None = None,
) -> None:
    """y = f(x)

    odd_two_(x!y, bias!scale_out, mode)

    x: f[*T, 2F], receives y.
    bias: like(x)|f32[F]?, receives scale_out, may be absent.
    mode: one of "", "1x128", "a-b", "a_b".
    """
    ...

def switch(
    default: _A,
    options: _Array,
    k: int,
    *,
    out: _A | None = None,
    stream: int | None = None,
) -> _A:
    """y = f(x)

    switch(default: i8[B+1]! ~offsets, options: index[B] ~index<B, k: int) -> default: f32[]

    default: i8[B+1]!, written.
    options: index[B].
    k: integer.
    """
    ...

def odd_after(
    x: _Array | None,
    y: _A,
    dt: str,
    mode: Literal["none", ""],
    *,
    out: _A | None = None,
    stream: int | None = None,
) -> _A:
    """y = f(x)

    odd_after(x: f[N]?, y: f[N], dt: dtype(f), mode: "none"|"") -> y: dt|like(y)[N]

    x: f[N]?, may be absent.
    y: f[N].
    dt: a dtype: f32, f16, bf16.
    mode: one of "none", "".
    """
    ...

def odd_no_tensor(
    n: int,
    seed: int = -7,
    *,
    out: _Array | None = None,
    stream: int | None = None,
) -> _Array:
    """y = f(x)

    odd_no_tensor(n: int, seed: int = -7) -> y: f32[4]

    n: integer.
    seed: integer.
    """
    ...
