"""RoPE's precision and ALiBi's slopes; definitions: tests/definitions/attention.py."""

import pytest
import torch

from zoo.mixers.positions import alibi_slopes, rotate

F64 = torch.float64


def test_rope_keeps_its_precision_and_its_dtype_far_out():
    x = torch.ones(1, 1, 4, 8, dtype=torch.bfloat16)
    assert rotate(x, 3001).dtype == torch.bfloat16
    exact = rotate(x.double(), 3001)
    torch.testing.assert_close(rotate(x, 3001).double(), exact, atol=0.01, rtol=0.01)


@pytest.mark.parametrize(
    ("num_heads", "exponents"),
    [(1, [8]), (2, [4, 8]), (8, [1, 2, 3, 4, 5, 6, 7, 8]), (3, [4, 8, 2]), (6, [2, 4, 6, 8, 1, 3])],
)
def test_alibi_slopes(num_heads: int, exponents: list[int]):
    assert alibi_slopes(num_heads).tolist() == [2.0**-e for e in exponents]
