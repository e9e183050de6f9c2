"""The wheels of a release (tools/release_wheel.py): compatible with glibc 2.28, installed alone in
an empty environment of every Python, and run on arm64 under qemu.

`make release-wheel` builds them and then runs this, with DLBLAS_TEST_WHEELS naming their folder.
"""

from __future__ import annotations

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import venv
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
WHEELS = os.environ.get("DLBLAS_TEST_WHEELS", "")
if not WHEELS:
    pytest.skip("no release here: `make release-wheel` runs this", allow_module_level=True)

sys.path.insert(0, str(ROOT / "tools"))
import arm64  # noqa: E402
import check_exports  # noqa: E402
import lock  # noqa: E402
import tree  # noqa: E402

VERSION = (ROOT / "VERSION").read_text().strip()
FLOOR = (2, 28)
MAX_BYTES = 10 << 20
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
MACHINES = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}


def wheel_of(arch: str) -> pathlib.Path:
    path = pathlib.Path(WHEELS) / f"dlblas_fused-{VERSION}-py3-none-manylinux_2_28_{arch}.whl"
    if not path.exists():
        pytest.skip(f"{path.name} was not built")
    return path


def run(*command: str | pathlib.Path, **env: str) -> str:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DLBLAS_", "PYTHON"))}
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        env={**kept, **env},
        cwd="/",
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def locked_numpy(python: str, folder: pathlib.Path) -> list[str | pathlib.Path]:
    """pip's options to install the NumPy of requirements.lock, verified by its hashes."""
    (line,) = lock.pinned(["numpy"], python)
    listed = folder / "numpy.txt"
    listed.write_text(line + "\n")
    return ["--require-hashes", "--no-deps", "--requirement", listed]


@pytest.fixture(params=MACHINES)
def unpacked(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> tuple[str, pathlib.Path]:
    with zipfile.ZipFile(wheel_of(request.param)) as archive:
        archive.extractall(tmp_path)
    return request.param, tmp_path


def binaries(folder: pathlib.Path) -> list[pathlib.Path]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if path.read_bytes()[:4] == b"\x7fELF"]


@pytest.mark.parametrize("arch", MACHINES)
def test_size_and_metadata(arch: str) -> None:
    wheel = wheel_of(arch)
    assert wheel.stat().st_size <= MAX_BYTES
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"dlblas_fused-{VERSION}.dist-info/WHEEL").decode()
    assert f"Tag: py3-none-manylinux_2_28_{arch}\n" in text
    assert "Root-Is-Purelib: false" in text


def test_symbols_are_as_old_as_the_tag_says(unpacked: tuple[str, pathlib.Path]) -> None:
    arch, folder = unpacked
    found = binaries(folder)
    assert found
    for binary in found:
        assert f"Machine: {MACHINES[arch]}" in re.sub(" +", " ", run("readelf", "-h", binary))
        versions = run("readelf", "--version-info", "--wide", binary)
        glibc = [(int(a), int(b)) for a, b in re.findall(r"GLIBC_(\d+)\.(\d+)", versions)]
        assert glibc, "no versions at all: not linked with glibc"
        assert max(glibc) <= FLOOR
        assert not re.search(r"GLIBCXX|CXXABI", versions)


def test_exports_and_needs_only_what_it_may(unpacked: tuple[str, pathlib.Path]) -> None:
    _, folder = unpacked
    for binary in binaries(folder):
        if binary.suffix == ".so":
            problems, summary = check_exports.problems_of(binary)
            assert problems == []
            assert "libgcc_s.so.1" in summary  # one unwinder per process: see the last test
    # No binary contains the path of the build's own folder.
    texts = b"".join(binary.read_bytes() for binary in binaries(folder))
    assert str(ROOT).encode() not in texts


def test_holds_what_the_staged_package_holds(unpacked: tuple[str, pathlib.Path]) -> None:
    staged = ROOT / "build" / "python"
    if not staged.exists():
        pytest.skip("the tree is not built")
    names = {
        folder: {
            str(path.relative_to(folder))
            for path in folder.rglob("*")
            if path.is_file()
            and not re.search(r"__pycache__|\.dist-info|libdlblas\.so\.\d", str(path))
        }
        for folder in (staged, unpacked[1])
    }
    assert names[unpacked[1]] == names[staged]


def interpreter(version: str) -> pathlib.Path:
    """A CPython of that version: this one, the one on PATH, or one of pyenv's."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return pathlib.Path(sys.executable)
    found = shutil.which(f"python{version}") or ""
    pyenv = pathlib.Path.home() / ".pyenv" / "versions"
    for path in [*sorted(pyenv.glob(f"{version}.*/bin/python")), pathlib.Path(found)]:
        if path.is_file() and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return path
    pytest.skip(f"no Python {version} on this machine")


@pytest.fixture(scope="module", params=PYTHONS)
def empty(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The Python of an environment into which `pip install` put the wheel and NumPy."""
    python = interpreter(request.param)
    folder = tmp_path_factory.mktemp("empty")
    if python == pathlib.Path(sys.executable):
        venv.create(folder, with_pip=False)
    else:
        run(python, "-m", "venv", "--without-pip", folder)
    inside = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", inside]
    run(*pip, "install", "--quiet", "--no-index", wheel_of("x86_64"))
    assert run(inside, "-c", "import dlblas; print(dlblas.__version__)").strip() == VERSION
    command = [*pip, "install", "--quiet", "--only-binary=:all:"]
    command += locked_numpy(request.param, folder)
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"NumPy for Python {request.param} could not be fetched")
    return inside


def test_readme_example_in_an_empty_environment(
    empty: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    said = run(
        empty,
        "-c",
        tree.readme_python(ROOT)[0],
        DLBLAS_CACHE=str(tmp_path),
        DLBLAS_TUNE_SECONDS="0.3",
    )
    assert re.search(r"^  > +\w+ +yes", said, re.M), said


@pytest.mark.skipif(platform.machine() != "x86_64", reason="cpuid is x86's")
def test_finds_the_instruction_sets_of_this_cpu(empty: pathlib.Path) -> None:
    """The Linux kernel's own list decides, whatever the compiler's runtime knows of CPUs."""
    (line,) = set(re.findall(r"^flags.*", pathlib.Path("/proc/cpuinfo").read_text(), re.M))
    flags = set(line.split())
    expected = "baseline"
    if flags >= {"avx2", "fma", "f16c"}:
        expected = "avx2"
        if flags >= {"avx512f", "avx512bw", "avx512vl", "avx512dq"}:
            expected = "avx512"
    said = run(empty, "-c", "import dlblas; print(dlblas.info()['devices'][0]['isa_hardware'])")
    assert said.strip() == expected


def test_a_thread_that_python_ends_inside_a_call_ends_alone(
    empty: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """At exit, Python ends daemon threads when they reacquire its lock, by an unwinding of its own
    through our frames."""
    code = (
        "import threading, time, numpy, dlblas\n"
        "x, w = numpy.ones((512, 4096), 'f'), numpy.ones(4096, 'f')\n"
        "def work():\n"
        "    while True: dlblas.rms_norm(x, w)\n"
        "for _ in range(4): threading.Thread(target=work, daemon=True).start()\n"
        "time.sleep(0.5)\n"
        "print('left', flush=True)\n"
    )
    assert run(empty, "-c", code, DLBLAS_CACHE=str(tmp_path)) == "left\n"


def test_arm64_runs_the_readme_example(tmp_path: pathlib.Path) -> None:
    """Runs the same lines on an arm64 Python under qemu, with its NumPy, and compares a result."""
    wheel = wheel_of("aarch64")
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    target = ["--target", site, "--python-version", "3.11", "--only-binary=:all:"]
    target += ["--platform", "manylinux_2_28_aarch64", "--platform", "manylinux2014_aarch64"]
    run(*pip, *target, "--no-index", wheel)
    command = [*pip, *target, *locked_numpy("3.11", tmp_path)]
    done = subprocess.run([str(part) for part in command], capture_output=True)
    if done.returncode != 0:
        pytest.skip("arm64's NumPy could not be fetched")
    check = (
        "\nimport platform\n"
        "from dlblas import counters\n"
        "want = x / np.sqrt((x.astype('d') ** 2).mean(-1, keepdims=True) + 1e-6)\n"
        "assert abs(y - want).max() < 1e-5\n"
        "a, b = np.random.randn(33, 70).astype('f'), np.random.randn(70, 19).astype('f')\n"
        "assert abs(dlblas.matmul(a, b) - a @ b).max() < 1e-3\n"
        "print(platform.machine(), counters()['launched'] > 0)\n"
    )
    said = run(
        *arm64.python(),
        "-c",
        tree.readme_python(ROOT)[0] + check,
        PYTHONPATH=str(site),
        DLBLAS_CACHE=str(tmp_path / "cache"),
        DLBLAS_TUNE_SECONDS="2",
    )
    assert said.splitlines()[-1] == "aarch64 True"
