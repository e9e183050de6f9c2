"""After a call in an older form, the next call tries that form first. Whatever follows, each call
keeps its meaning, and the errors are the operator's own.

Read next: bindings/python/init.cpp (call_older_form), test_known_names.py.
"""

from __future__ import annotations

import threading
from typing import Any

import dlblas
import numpy as np
import pytest


def tables(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape, np.float32)


Q, K = tables(2, 3, 4, 8), tables(2, 3, 2, 8)
OF_ALL = tables(3, 8)
OWN = np.ascontiguousarray(np.broadcast_to(OF_ALL, (2, 3, 8)))


def rotate(table: Any) -> Any:
    return dlblas.apply_rotary_pos_emb(Q, K, table, table)


def test_forms_in_turn() -> None:
    expected = rotate(OWN)
    for table in (OF_ALL, OF_ALL, OWN, OF_ALL[None], OWN, OWN, OF_ALL):
        for got, want in zip(rotate(table), expected, strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("before", [OF_ALL, OWN], ids=["older", "own"])
def test_what_is_refused_is_refused_after_either(before: Any) -> None:
    wrong = tables(5, 8)
    rotate(before)
    with pytest.raises(dlblas.errors.ShapeMismatchError, match="cos"):
        rotate(wrong)
    rotate(before)
    with pytest.raises(dlblas.errors.Error, match="style"):
        dlblas.apply_rotary_pos_emb(Q, K, OF_ALL, OF_ALL, style="other")
    for got, want in zip(rotate(OF_ALL), rotate(OWN), strict=True):
        np.testing.assert_array_equal(got, want)


def test_softmax_over_other_dimensions_in_turn() -> None:
    x = tables(6, 5)
    for dim in (0, 0, 1, -1, 0, -2):
        want = np.exp(x) / np.exp(x).sum(axis=dim, keepdims=True)
        np.testing.assert_allclose(dlblas.softmax(x, dim=dim), want, rtol=1e-5)
    np.testing.assert_allclose(
        dlblas.softmax(x), np.exp(x) / np.exp(x).sum(-1, keepdims=True), 1e-5
    )


def test_threads_with_other_forms() -> None:
    expected, failures = rotate(OWN), []

    def work(table: Any) -> None:
        for _ in range(200):
            if not all(np.array_equal(g, w) for g, w in zip(rotate(table), expected, strict=True)):
                failures.append(table.shape)

    threads = [threading.Thread(target=work, args=(t,)) for t in (OF_ALL, OWN, OF_ALL[None])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
