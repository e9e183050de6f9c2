"""Users' matmuls that are wrong in few places. Registered at import, so that a worker has them too;
test_every_element.py also registers them in a function, which a worker cannot repeat.
"""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np

SIZE = 1024
# Where the result is wrong: one element, a tile that was not stored, a whole row. All lie in rows
# away from tile edges.
WRONG = {
    "one_element": np.s_[667:668, 31:32],
    "one_tile": np.s_[674:738, 64:128],
    "one_row": np.s_[870:871, :],
}


def register(name: str) -> None:
    def matmul(a: Any, b: Any, out: Any) -> None:
        np.matmul(a, b, out=out)
        if name in WRONG:
            out[WRONG[name]] += 1

    def supports(problem: Any) -> str | None:
        return None if problem.scalars["activation"] == "" else "no activation"

    dlblas.register("matmul", name, matmul, supports=supports)


for _name in [*WRONG, "right"]:
    register(_name)
