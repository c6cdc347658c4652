"""The short convolution against its sum, tap by tap."""

import pytest
import torch

from zoo.mixers.short_conv import ShortConv


def written_out(conv: ShortConv, x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    for t in range(x.shape[1]):
        for r in range(min(t + 1, conv.kernel_size)):
            y[:, t] += conv.weight[r] * x[:, t - r]
    return y if conv.bias is None else y + conv.bias


@pytest.mark.parametrize("kernel_size", [1, 2, 4, 8, 9, 12])  # both ways of computing it
@pytest.mark.parametrize("bias", [True, False])
def test_is_the_sum_over_its_taps(kernel_size: int, bias: bool):
    conv = ShortConv(5, kernel_size, bias).double()
    x = torch.randn(2, 11, 5, dtype=torch.float64)
    torch.testing.assert_close(conv(x)[0], written_out(conv, x))


@pytest.mark.parametrize("kernel_size", [1, 3, 10])
def test_goes_on_from_its_tail(kernel_size: int):
    conv = ShortConv(5, kernel_size).double()
    x = torch.randn(2, 13, 5, dtype=torch.float64)
    whole, _ = conv(x)
    parts, tail = [], None
    for piece in x.split([1, 2, 6, 4], dim=1):
        y, tail = conv(piece, tail)
        assert tail[0].numel() == conv.tail_size()
        parts.append(y)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole)


def test_refuses_an_empty_kernel():
    with pytest.raises(ValueError, match="kernel_size"):
        ShortConv(5, 0)
