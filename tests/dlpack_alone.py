"""An array as a DLPack-only package would hand it over. Used by: test_made_of.py, test_rope.py."""

from __future__ import annotations

from typing import Any

import numpy as np


class DLPackAlone:
    """An array whose only protocol is DLPack."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)
