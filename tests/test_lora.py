"""dlblas.lora_shrink and lora_expand on tokens of several leading dimensions: a y that no view can
merge is copied back.

Shapes, layouts and special values are in ops/gemm/lora_*/cases.json. Read next:
python/dlblas/_leading.py.
"""

from __future__ import annotations

from typing import Any

import dlblas
import pytest
from dlblas.errors import ShapeMismatchError

torch = pytest.importorskip("torch")
torch.manual_seed(5)


def wanted(x: Any, matrices: Any, adapters: Any, y: Any) -> Any:
    own = matrices[adapters.clamp(min=0)].double()
    product = torch.einsum("...k,...nk->...n", x.double(), own) / 2
    return (y + torch.where(adapters[..., None] >= 0, product, 0)).float()


@pytest.mark.parametrize("lead", [(2, 3), (1, 2, 3), (2, 0), (6,)])
@pytest.mark.parametrize("lora", [dlblas.lora_shrink, dlblas.lora_expand])
def test_tokens_of_any_leading_dimensions(lora: Any, lead: tuple[int, ...]) -> None:
    x, matrices = torch.randn(*lead, 24), torch.randn(3, 10, 24)
    adapters = torch.randint(-1, 3, lead)
    turned = torch.randn(*lead[::-1], 10).permute(*range(len(lead))[::-1], len(lead))
    for y in (torch.randn(*lead, 10), turned, torch.randn(*lead, 20)[..., ::2]):
        expected = wanted(x, matrices, adapters, y)
        lora(x, matrices, adapters, y, 0.5)
        torch.testing.assert_close(y, expected)


def test_compiled() -> None:
    def call(x: Any, matrices: Any, adapters: Any, y: Any) -> Any:
        dlblas.lora_shrink(x, matrices, adapters, y, 0.5)
        return y + 1

    args = torch.randn(2, 3, 24), torch.randn(3, 10, 24), torch.randint(-1, 3, (2, 3))
    y = torch.randn(3, 2, 10).transpose(0, 1)
    expected = wanted(*args, y)
    made = torch.compile(call, backend="aot_eager", fullgraph=True)(*args, y)
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(made, expected + 1)


def test_leading_dimensions_that_differ() -> None:
    x, matrices, adapters = torch.randn(2, 3, 24), torch.randn(3, 10, 24), torch.zeros(2, 3).int()
    y = torch.zeros(2, 3, 10)
    for name, given in (("y", (adapters, y.flatten(0, 1))), ("token_lora", (adapters[0], y))):
        with pytest.raises(ShapeMismatchError, match=f"lora_shrink: {name} ") as refused:
            dlblas.lora_shrink(x, matrices, *given)
        assert refused.value.argument == name
    assert not y.any()
