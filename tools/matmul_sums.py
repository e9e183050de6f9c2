#!/usr/bin/env python3
"""Records the errors of sums over K next to those of cuBLAS.

In: files with the output of `pytest -m gpu -s tests/test_matmul_sums.py` on a GPU, any order. Out:
benchmarks/results/matmul_sums-CARD.json. Read next: tests/test_matmul_sums.py, ops/gemm/README.md.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re

RESULTS = pathlib.Path(__file__).resolve().parent.parent / "benchmarks" / "results"
LINE = re.compile(
    r"\.?(f32|f16|bf16) (\w+) +(\d+)x(\d+)x(\d+): cuBLAS ([\d.e+-]+)/([\d.e+-]+)  (.*)"
)
UNIT = (
    "2^-24 of the sum of absolute products: the largest, and the root mean square, over all "
    "elements of up to eight draws"
)


def row(match: re.Match[str]) -> dict[str, object]:
    dtype, values, m, k, n, most, mean, ours = match.groups()
    found: dict[str, object] = {
        "dtype": dtype,
        "values": values,
        "problem": {"M": int(m), "K": int(k), "N": int(n)},
        "cublas": {"max": float(most), "rms": float(mean)},
    }
    for name, error in re.findall(r"(cuda_\w+) (\S+)", ours):
        largest, _, rms = error.partition("/")
        found[name] = {"max": float(largest), "rms": float(rms)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("outputs", nargs="+", type=pathlib.Path)
    parser.add_argument("--card", required=True, help="as nvidia-smi names it")
    parser.add_argument("--driver", required=True)
    parser.add_argument("--when", required=True, help="YYYY-MM-DD")
    parser.add_argument("--commit", required=True, help="what the package was built from")
    args = parser.parse_args()
    lines = [line for path in args.outputs for line in path.read_text().splitlines()]
    matches = [match for match in map(LINE.match, lines) if match]
    rows = list({match.groups()[:5]: row(match) for match in matches}.values())  # each once
    record = {
        "what": "matmul_sums",
        "test": "pytest -m gpu -s tests/test_matmul_sums.py",
        "card": args.card,
        "driver": args.driver,
        "when": args.when,
        "commit": args.commit,
        "unit": UNIT,
        "rows": rows,
    }
    path = RESULTS / f"matmul_sums-{args.card.lower().replace(' ', '-')}.json"
    head = json.dumps({k: v for k, v in record.items() if k != "rows"}, indent=1)[:-2]
    text = ",\n".join(f"  {json.dumps(r)}" for r in rows)
    path.write_text(f'{head},\n "rows": [\n{text}\n ]\n}}\n', encoding="utf-8")
    print(f"{path}: {len(rows)} rows")


if __name__ == "__main__":
    main()
