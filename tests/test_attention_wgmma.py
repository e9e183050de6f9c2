"""The generated code of WGMMA attention, checked without a GPU: score products have the dtype of q
and k, value products have 16 bits, and their number follows from the sizes."""

from __future__ import annotations

import collections
import ctypes
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from check_device_headers import find_nvrtc  # noqa: E402

HEADER = "ops/attention/attention_wgmma.cuh"
PRODUCT = re.compile(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k(\d+)\.f32\.(\w+)\.\w+")


def kernel(kept: str, d: int, keys: int, *, value: str = "", queries: int = 2) -> str:
    types = [f"dlblas::DType::k{t}" for t in (value or kept, kept, "BF16", "Absent")]
    wide = "dlblas::attention::Reach::kWide"
    traits = [*types, str(d), str(d), wide, wide, "false", "false", "false"]
    return (
        f"dlblas::attention::attention_wgmma<dlblas::attention::AttentionTraits{{{','.join(traits)}}},"
        f"dlblas::attention::AttentionWgmmaConfig{{2,{keys},2,{queries},false,true}}>"
    )


def ptx(entry: str) -> str:
    nvrtc = find_nvrtc()
    if nvrtc is None:
        pytest.fail("the kernels need NVRTC to compile")
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    source = f'#include "{HEADER}"\n'.encode()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"text.cu", 0, None, None)
    nvrtc.nvrtcAddNameExpression(program, entry.encode())
    options = [b"-arch=compute_90a", b"-std=c++20", b"-default-device", f"-I{ROOT}".encode()]
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
    return text.value.decode()


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
