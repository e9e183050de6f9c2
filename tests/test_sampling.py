"""dlblas.sample and the filters of rows: known random numbers, distributions, ties, rows without a
distribution, and a judge that refuses spoiled results.

Shapes, layouts and special values are in ops/sampling/*/cases.json. Read next:
ops/sampling/README.md.
"""

from __future__ import annotations

from typing import Any

import dlblas
import numpy as np
import pytest

INF = np.float32(np.inf)
NAN = np.float32(np.nan)


def softmax(x: Any) -> Any:
    power = np.exp(np.float64(x) - np.max(x, -1, keepdims=True))
    return power / power.sum(-1, keepdims=True)


def philox(seed: int, offset: int, row: int) -> int:
    low = 2**32 - 1
    k, c = [seed & low, seed >> 32], [offset & low, offset >> 32, row & low, row >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & low, a >> 32 ^ c[3] ^ k[1], a & low]
        k = [k[0] + 0x9E3779B9 & low, k[1] + 0xBB67AE85 & low]
    return c[1] << 32 | c[0]


def test_philox_is_philox() -> None:
    """Random123's known answers, with key and counter all zeros, all ones, and pi's digits."""
    assert philox(0, 0, 0) == 0xE169C58D6627E8D5
    ones = 2**64 - 1
    assert philox(ones, ones, ones) == 0x41C83B0E408F276D
    digits = 0x299F31D0A4093822, 0x85A308D3243F6A88, 0x0370734413198A2E
    assert philox(*digits) == 0x94FDCCEBD16CFE09


@pytest.mark.parametrize("seed", [0, 3, 2**40 + 7])
def test_a_draw_is_where_the_random_number_falls(seed: int) -> None:
    x = np.zeros((64, 1024), np.float32)  # column = ⌊1024 · u⌋
    ids = dlblas.sample(x, seed=seed, offset=5)
    assert ids.dtype == np.int32 and ids.shape == (64,)
    np.testing.assert_array_equal(ids, [philox(seed, 5, row) >> 54 for row in range(64)])
    np.testing.assert_array_equal(ids, dlblas.sample(x, seed=seed, offset=5))
    assert (ids != dlblas.sample(x, seed=seed, offset=6)).any()


def test_seeds_of_rows_do_not_depend_on_their_place() -> None:
    x = np.random.default_rng(1).standard_normal((6, 300)).astype(np.float32)
    seeds, offsets = np.arange(6) * 1000 + 3, np.arange(6) * 7
    ids = dlblas.sample(x, seed=seeds, offset=offsets)
    order = [4, 0, 5, 2, 1, 3]
    np.testing.assert_array_equal(
        dlblas.sample(x[order], seed=seeds[order], offset=offsets[order]), ids[order]
    )
    for row in range(6):
        one = dlblas.sample(x[row : row + 1], seed=seeds[row : row + 1], offset=int(offsets[row]))
        assert one[0] == ids[row]


@pytest.mark.parametrize(
    "how",
    [{}, {"temperature": 0.5}, {"top_k": 5}, {"top_p": 0.6}, {"min_p": 0.3},
     {"top_k": 8, "top_p": 0.7, "min_p": 0.05, "temperature": 1.5}],
    ids=str,
)  # fmt: skip
def test_distribution(how: dict[str, float]) -> None:
    row = np.random.default_rng(2).standard_normal(40).astype(np.float32) * 2
    p = softmax(row / how.get("temperature", 1.0))
    k = int(how.get("top_k", 40))
    p[p < np.sort(p)[::-1][k - 1]] = 0
    order = np.argsort(-p)
    above = np.cumsum(p[order]) - p[order]
    out = order[above >= how.get("top_p", 1.0) * p.sum()]
    if "top_p" in how:
        p[out] = 0
    p[p < how.get("min_p", 0.0) * p.max()] = 0
    p /= p.sum()
    draws = 20000
    ids = dlblas.sample(np.broadcast_to(row, (draws, 40)), seed=11, **how)
    counts = np.bincount(ids, minlength=40)
    assert not counts[p == 0].any()
    kept = p > 0
    away = (counts[kept] - draws * p[kept]) / np.sqrt(draws * p[kept] * (1 - p[kept]) + 1)
    assert np.abs(away).max() < 4.5


def test_parameters_of_each_row() -> None:
    x = np.random.default_rng(3).standard_normal((5, 50)).astype(np.float32)
    heat = np.array([0, 1, 0.5, 2, 0], np.float32)
    k = np.array([3, 1, 0, -1, 7])
    ids = dlblas.sample(x, heat, k, np.float32([1, 1, 0, 1, 0.5]), seed=4)
    assert ids[0] == x[0].argmax() and ids[4] == x[4].argmax()
    assert ids[1] == x[1].argmax() and ids[2] == x[2].argmax()  # one is left
    assert (ids >= 0).all() and (ids < 50).all()


def test_greedy_takes_the_first_and_rows_without_a_law_are_said() -> None:
    x = np.float32([[1, 3, 3, 0], [1, NAN, 2, 0], [1, INF, 0, 0], [-INF] * 4, [-INF, 0, -INF, 0]])
    np.testing.assert_array_equal(dlblas.sample(x, 0.0), [1, -1, -1, -1, 1])
    ids = dlblas.sample(x, seed=2)
    assert (ids[1:4] == -1).all() and ids[4] in (1, 3)
    assert (dlblas.sample(x, -1.0) == -1).all() and (dlblas.sample(x, np.nan) == -1).all()
    p = np.float32([[0, 0, 0], [0.5, -0.1, 0.6], [0, 7, 0]])
    np.testing.assert_array_equal(dlblas.sample(p, probs=True), [-1, -1, 1])


def test_what_stays() -> None:
    x = np.float32([[1, 4, 2, 4, 3, -1], [5, 5, 5, 5, 5, 5], [NAN, 1, 2, 3, 4, 5]])
    masked = dlblas.top_k_mask_logits(x, 2)
    np.testing.assert_array_equal(masked[0], [-INF, 4, -INF, 4, -INF, -INF])
    np.testing.assert_array_equal(masked[1], x[1])  # ties with the second stay
    assert np.isnan(masked[2]).all()
    np.testing.assert_array_equal(
        dlblas.top_k_mask_logits(x, np.array([3, 0, 1], np.int32))[0], [-INF, 4, -INF, 4, 3, -INF]
    )
    p = np.float32([[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]])
    np.testing.assert_allclose(dlblas.top_k_renorm(p, 2)[0], [0, 0, 3 / 7, 4 / 7], rtol=1e-6)
    np.testing.assert_allclose(dlblas.top_p_renorm(p, 0.65)[0], [0, 0, 3 / 7, 4 / 7], rtol=1e-6)
    np.testing.assert_allclose(dlblas.top_p_renorm(p, 0.75)[0], [0, 2 / 9, 3 / 9, 4 / 9], rtol=1e-6)
    np.testing.assert_allclose(dlblas.top_p_renorm(p, 0.1)[1], p[1], rtol=1e-6)  # go together
    np.testing.assert_allclose(dlblas.top_p_renorm(p, 0.0)[0], [0, 0, 0, 1], rtol=1e-6)


def test_the_judge_of_ids() -> None:
    x = np.zeros((8, 16), np.float32)
    x[0, 3] = np.inf
    right = dlblas.sample(x, seed=1)[:, None]

    def ask(ids: Any) -> Any:
        return dlblas.verify("sample_rows", (x, None, None, None, None, None, None, 1), (ids,))

    assert ask(right).ok
    for row in range(8):
        for wrong in (right[row] + 1, right[row] - 1, -1, 16):
            ids = right.copy()
            ids[row] = wrong
            found = ask(ids)
            assert found.ok == (ids[row] == right[row]) and (found.ok or found.first_wrong == row)
    assert not ask(np.zeros_like(right)).ok and not ask(right[::-1].copy()).ok


@pytest.mark.parametrize("renorm", [True, False])
def test_the_judge_of_rows(renorm: bool) -> None:
    p = np.float32([[0.125, 0.25, 0.125, 0.5], [0.4, 0.3, 0.2, 0.1]])
    top_p = np.float32([0.75, 0.65])

    def ask(y: Any) -> Any:
        return dlblas.verify("filter_rows", (p, None, top_p, None, True, renorm), (np.float32(y),))

    def made(keep: Any) -> Any:
        kept = p * np.array(keep)
        return kept / kept.sum(-1, keepdims=True) if renorm else kept

    two, three = [0, 1, 0, 1], [1, 1, 0, 0]
    assert ask(made([two, three])).ok
    # The mass above 0.125 is exactly 0.75: within rounding, both 0.125 may stay, but only together.
    assert ask(made([[1, 1, 1, 1], three])).ok
    for keep in ([[1, 1, 0, 1], three], [[0, 0, 0, 1], three], [two, [1, 1, 1, 0]],
                 [two, [1, 0, 0, 0]], [two, [0, 1, 1, 0]]):  # fmt: skip
        assert not ask(made(keep)).ok, keep
    assert not ask(made([two, three]) * np.float32(1.0001)).ok


def test_torch_and_fakes() -> None:
    torch = pytest.importorskip("torch")
    import dlblas.torch

    x = torch.randn(3, 5, 64)
    ids = dlblas.sample(x, 0.7, 9, 0.9, seed=3)
    assert ids.shape == (3, 5) and ids.dtype is torch.int32
    np.testing.assert_array_equal(ids.numpy(), dlblas.sample(x.numpy(), 0.7, 9, 0.9, seed=3))
    y = dlblas.top_p_renorm(torch.softmax(x, -1), torch.full((3, 5), 0.5))
    torch.testing.assert_close(y.sum(-1), torch.ones(3, 5))


def test_compiled_numbers_are_symbols() -> None:
    """torch.compile makes symbols of numbers that change from call to call."""
    torch = pytest.importorskip("torch")

    def step(x: Any, heat: float, count: int, mass: float, seed: int) -> tuple[Any, ...]:
        p = torch.softmax(dlblas.top_k_mask_logits(x, count), -1)
        p = dlblas.top_p_renorm(dlblas.top_k_renorm(p, count), mass)
        return p, dlblas.sample(x, heat, count, mass, 1 - mass, seed)

    x = torch.randn(5, 64)
    torch._dynamo.reset()
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True, dynamic=True)
    for given in ((0.7, 9, 0.9, 3), (1.5, 20, 0.5, 4), (0.8, 5, 0.99, 5)):
        for got, expected in zip(compiled(x, *given), step(x, *given), strict=True):
            assert torch.equal(got, expected)


@pytest.mark.parametrize("package", ["torch", "numpy"])
def test_numbers_of_any_kind(package: str) -> None:
    """NumPy's numbers, arrays without dimensions, and numbers beyond f32's range."""
    x = np.random.default_rng(1).standard_normal((6, 64)).astype("f")
    ones = [np.float32(0.7), np.array(0.7, "f")]
    counts: list[Any] = [np.int64(5), np.array(5, "i")]
    if package == "torch":
        torch = pytest.importorskip("torch")
        x = torch.from_numpy(x)
        ones.append(torch.tensor(0.7))
        counts.append(torch.tensor(5))
    expected = np.asarray(dlblas.sample(x, 0.7, 5, 0.7, seed=2))
    for one, count in zip(ones, counts, strict=True):
        ids = dlblas.sample(x, one, count, one, seed=2)
        np.testing.assert_array_equal(np.asarray(ids), expected)
    np.testing.assert_array_equal(
        np.asarray(dlblas.sample(x, 1e308)), np.asarray(dlblas.sample(x, np.inf))
    )


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_devices_agree(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    x = (torch.randn(64, 32000) * 3).to(getattr(torch, dtype))
    for how in ({}, {"top_k": 50}, {"top_p": 0.9}, {"top_k": 40, "top_p": 0.8, "temperature": 0.7}):
        host = dlblas.sample(x, seed=9, **how)
        device = dlblas.sample(x.cuda(), seed=9, **how).cpu()
        assert (host == device).float().mean() > 0.95, how  # exponentials round otherwise
        np.testing.assert_array_equal(device, dlblas.sample(x.cuda(), seed=9, **how).cpu())
    torch.testing.assert_close(
        dlblas.top_k_mask_logits(x.cuda(), 77).cpu(), dlblas.top_k_mask_logits(x, 77)
    )


@pytest.mark.parametrize("package", ["torch", "numpy"])
def test_parameters_of_another_type(package: str) -> None:
    torch = pytest.importorskip("torch")
    x = torch.rand(3, 8) if package == "torch" else np.random.rand(3, 8).astype("f")
    for name, value in (
        ("temperature", "hot"), ("top_p", "a"), ("min_p", [0.1]), ("top_k", 2.5), ("top_k", "3"),
        ("top_k", 2**40),
    ):  # fmt: skip
        with pytest.raises(dlblas.Error, match=f"sample: {name} ") as refused:
            dlblas.sample(x, **{name: value})
        assert refused.value.argument == name
    with pytest.raises(dlblas.Error, match="top_p_renorm: top_p "):
        dlblas.top_p_renorm(x, "a")
    with pytest.raises(dlblas.Error, match="top_k_mask_logits: top_k "):
        dlblas.top_k_mask_logits(x, 2.5)
