"""RoPE and ALiBi against their formulas."""

import math

import pytest
import torch

from zoo.mixers.positions import alibi_slopes, check_position, rotate

F64 = torch.float64


def test_rope_turns_each_pair_by_its_angle():
    x = torch.randn(2, 3, 5, 8, dtype=F64)
    y = rotate(x, offset=7, base=100.0)
    for t in range(5):
        for i in range(4):
            angle = (7 + t) * 100.0 ** (-2 * i / 8)
            pair = torch.complex(x[:, :, t, i], x[:, :, t, i + 4]) * complex(math.cos(angle), math.sin(angle))
            torch.testing.assert_close(y[:, :, t, i], pair.real)
            torch.testing.assert_close(y[:, :, t, i + 4], pair.imag)


def test_rope_leaves_the_rest_of_the_channels_alone():
    x = torch.randn(1, 2, 6, 16, dtype=F64)
    y = rotate(x, offset=3, fraction=0.5)
    torch.testing.assert_close(y[..., 8:], x[..., 8:], rtol=0, atol=0)
    torch.testing.assert_close(y[..., :8], rotate(x[..., :8], offset=3))


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_rope_sees_differences_of_positions_alone(fraction: float):
    q, k = torch.randn(2, 1, 1, 6, 8, dtype=F64)
    near = rotate(q, 0, fraction=fraction) @ rotate(k, 0, fraction=fraction).mT
    far = rotate(q, 91, fraction=fraction) @ rotate(k, 91, fraction=fraction).mT
    torch.testing.assert_close(near, far)


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


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (("sinus", 8, 1.0, 1e4), "position"),
        (("rope", 3, 1.0, 1e4), "num_heads"),
        (("rope", 8, 0.1, 1e4), "rope"),
    ],
)
def test_refuses_what_cannot_be_turned(settings: tuple, named: str):
    with pytest.raises(ValueError, match=named):
        check_position(*settings)
