"""The generated code of WGMMA attention, checked without a GPU: score products have the dtype of q
and k, value products have 16 bits, and their number follows from the sizes."""

from __future__ import annotations

import collections
import ctypes
import pathlib
import re
import sys
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from check_device_headers import find_nvrtc  # noqa: E402

HEADER = "ops/attention/cuda/attention_wgmma.cuh"
PRODUCT = re.compile(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(\d+)\.f32\.(\w+)\.\w+")


def kernel(
    kept: str, d: int, keys: int, *, value: str = "", queries: int = 2, dv: int | None = None,
    bias: str = "Absent", one_row: bool = False, page: int = 0, turns: bool = False,
) -> str:  # fmt: skip
    types = [f"dlblas::DType::k{t}" for t in (value or kept, kept, "BF16", bias)]
    wide, flag = "dlblas::attention::Reach::kWide", ("false", "true")
    pairs = "kElement" if bias == "Absent" else "kRowPair" if one_row else "kPair"
    access = f"dlblas::attention::BiasAccess::{pairs}"
    traits = [*types, str(d), str(dv or d), wide, wide, access, "false", flag[page > 0], str(page)]
    traits += [types[1]]
    return (
        f"dlblas::attention::attention_wgmma<dlblas::attention::AttentionTraits{{{','.join(traits)}}},"
        f"dlblas::attention::AttentionWgmmaConfig{{2,{keys},2,{queries},{flag[turns]},true}}>"
    )


def ptx(entry: str) -> str:
    return compiled(entry, "compute_90a")[0]


def compiled(entry: str, arch: str, *more: bytes) -> tuple[str, str]:
    """PTX and the compilers' log."""
    nvrtc = find_nvrtc()
    if nvrtc is None:
        pytest.fail("the kernels need NVRTC to compile")
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    source = f'#include "{HEADER}"\n'.encode()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"text.cu", 0, None, None)
    nvrtc.nvrtcAddNameExpression(program, entry.encode())
    options = [f"-arch={arch}".encode(), b"-std=c++20", b"-default-device", *more]
    options.append(f"-I{ROOT}".encode())
    code = nvrtc.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*options)
    )
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    assert code == 0, log.value.decode()
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, text)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return text.value.decode(), log.value.decode()


# Block sizes differ from head sizes, so that score and value products differ in width.
@pytest.mark.parametrize(
    ("kept", "value", "d", "keys", "queries", "scores", "values"),
    [
        ("BF16", "BF16", 128, 112, 2, "bf16", "bf16"),
        ("F16", "F16", 64, 96, 1, "f16", "f16"),
        ("F8E4M3", "F16", 128, 112, 2, "e4m3", "f16"),
        ("F8E5M2", "F16", 64, 96, 1, "e5m2", "f16"),
        ("F8E4M3", "F16", 256, 80, 1, "e4m3", "f16"),
    ],
)
def test_products_are_of_their_types(
    kept: str, value: str, d: int, keys: int, queries: int, scores: str, values: str
) -> None:
    found = PRODUCT.findall(ptx(kernel(kept, d, keys, value=value, queries=queries)))
    step = 32 if kept.startswith("F8") else 16  # of an instruction, along a head
    places = 2  # a tile's first block or last values, and the blocks between
    assert collections.Counter(found) == {
        (str(keys), str(step), scores): places * d // step,
        (str(d), "16", values): places * keys // 16,
    }


@pytest.mark.parametrize(("d", "dv"), [(192, 128), (96, 96), (80, 72), (16, 8)])
def test_products_have_no_columns_of_zeros(d: int, dv: int) -> None:
    """Shared memory holds heads in panels of 64 columns; products end with the head."""
    found = PRODUCT.findall(ptx(kernel("BF16", d, 112, dv=dv, queries=1)))
    assert collections.Counter(found) == {
        ("112", "16", "bf16"): 2 * d // 16, (str(dv), "16", "bf16"): 2 * 112 // 16,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("d", "dv", "keys", "more"),
    [
        (192, 128, 128, {}), (192, 192, 112, {}), (96, 96, 176, {}), (96, 96, 192, {}),
        (192, 128, 128, {"page": 16}), (96, 96, 128, {"page": 16}),
        (128, 128, 128, {"bias": "BF16"}), (192, 128, 112, {"bias": "F32"}),
        (256, 256, 64, {"bias": "F32"}), (128, 128, 128, {"bias": "F32", "one_row": True}),
    ],
)  # fmt: skip
def test_registers_hold_a_block(d: int, dv: int, keys: int, more: dict[str, Any]) -> None:
    """tools/compile_all.cpp has no such heads."""
    entry = kernel("BF16", d, keys, dv=dv, queries=1, **more)
    log = compiled(entry, "sm_90a", b"--ptxas-options=-v")[1]
    assert "0 bytes spill stores, 0 bytes spill loads" in log, log
    assert "C75" not in log and "warning" not in log.lower(), log


A_OF_PRODUCT = re.compile(r"wgmma\.mma_async[^{]*\{[^}]*\}, \{([^}]*)\}")
WRITTEN = re.compile(
    r"^\t(?:@!?%p\d+ )?(?!st|bar|mbarrier|wgmma|bra|red|fence)[a-z]\S+ *\t?(%r\d+|\{[^}]*\})"
)


@pytest.mark.parametrize(
    ("kept", "d", "keys", "more"),
    [
        ("BF16", 128, 128, {"turns": True}), ("BF16", 128, 176, {"turns": True}),
        ("BF16", 256, 80, {}), ("F8E4M3", 128, 128, {"value": "F16", "queries": 2}),
        ("BF16", 128, 128, {"bias": "F32", "one_row": True}), ("BF16", 128, 128, {"page": 16}),
    ],
)  # fmt: skip
def test_numerators_stay_until_their_product_has_ended(
    kept: str, d: int, keys: int, more: dict[str, Any]
) -> None:
    """No register that P·V reads is written before the wait for P·V: those of numerators that are
    computed beside it are others. With the same ones, results were not numbers (H200)."""
    read: set[str] = set()
    products = 0
    for line in ptx(kernel(kept, d, keys, **{"queries": 1, **more})).splitlines():
        if found := A_OF_PRODUCT.search(line):
            read |= set(re.findall(r"%r\d+", found[1]))
            products += 1
        elif "wgmma.wait_group.sync.aligned 0" in line:
            read.clear()
        elif found := WRITTEN.match(line):
            assert not read & set(re.findall(r"%r\d+", found[1])), line
    assert products >= 2 * keys // 16
