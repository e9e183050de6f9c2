#!/usr/bin/env python3
"""Checks the Python package with pyright, which users' editors run: it narrows types differently
from mypy, and finds other mistakes.

In: python/dlblas, and basedpyright (pyright bundled with node, optional in requirements-test.txt).
Out: one line per complaint. Cached: runs again only when the package's text changes. Read next:
tests/test_typing.py, which checks users' programs in strict mode.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import tree

# Files that only mypy can check: they depend on types chosen by a string or a key, on torch's and
# NumPy's own stubs, or on names that the build writes, which pyright does not see through. A file
# leaves this list once both can check it.
LEFT_TO_MYPY = (
    "_missed.py", "bench", "harness/checks.py", "oracle.py",
    "own/_arrays.py", "own/_cases.py", "own/_names.py", "own/_operator.py", "own/_space.py",
    "own/_text.py", "torch/_register.py", "triton_ops/autotuner/arrays.py",
    "triton_ops/kernels/__init__.py", "triton_ops/kernels/fp8_quantize.py",
)  # fmt: skip


def settings(package: pathlib.Path) -> dict[str, object]:
    return {
        "include": [str(package)],
        "exclude": ["**/__pycache__"],
        "ignore": [str(package / name) for name in LEFT_TO_MYPY],
        "extraPaths": [str(package.parent)],
        "typeCheckingMode": "basic",
        "pythonVersion": "3.10",
        "reportMissingImports": "none",  # what the build writes; what is not installed here
        "reportMissingModuleSource": "none",
        "reportUnsupportedDunderAll": "none",  # of the names that the build writes
        "reportTypedDictNotRequiredAccess": "none",  # a report has the fields of its kind
    }


def complaints(command: str, package: pathlib.Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "pyrightconfig.json"
        file.write_text(json.dumps(settings(package)), encoding="utf-8")
        words = [command, "--outputjson", "-p", str(file), "--pythonpath", sys.executable]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)["generalDiagnostics"]
    except (ValueError, KeyError):
        return f"it did not run: {(done.stderr or done.stdout).strip()[-500:]}"
    return "\n".join(
        f"{pathlib.Path(one['file']).relative_to(package.parent)}:"
        f"{one['range']['start']['line'] + 1}: {one['message'].splitlines()[0]}"
        for one in found
    )


def main() -> int:
    root = tree.parser(__doc__).parse_args().root.resolve()
    beside = pathlib.Path(sys.executable).parent / "basedpyright"
    command = str(beside) if beside.exists() else shutil.which("basedpyright")
    if command is None:
        print("check_pyright: left out, there is no basedpyright: pip install basedpyright")
        return 0
    package = root / "python" / "dlblas"
    key = hashlib.sha256(json.dumps(settings(package)).encode())
    for path in tree.files(root, [".py", ".pyi"], ["python"]):
        key.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    problems = tree.run_cached(
        root, "pyright", {"python/dlblas": key.hexdigest()}, lambda _: complaints(command, package)
    )
    return tree.report(
        "check_pyright",
        [line for problem in problems for line in problem.splitlines()],
        f"python/dlblas but for {len(LEFT_TO_MYPY)} files and folders",
    )


if __name__ == "__main__":
    sys.exit(main())
