"""The short convolution goes on from its tail, and its shifted sums are its definition's."""

import pytest
import torch
from torch import Tensor
from torch.func import vmap

import zoo.kernels.short_conv.shifted as shifted
from zoo.kernels.short_conv import short_conv_reference, short_conv_shifted
from zoo.mixers.short_conv import ShortConv


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


@pytest.mark.parametrize("cached", [1, 40, 1 << 18])  # scalars: one sequence at a time, two, all
@pytest.mark.parametrize(("length", "with_tail"), [(7, False), (7, True), (2, False), (1, True)])
def test_shifted_sums_have_the_reference_s_values_and_gradients(cached, length, with_tail, monkeypatch):
    monkeypatch.setattr(shifted, "CACHED", cached)

    def draw(*shape: int) -> Tensor:
        return torch.randn(3, *shape, dtype=torch.float64, requires_grad=True)  # three members

    inputs = [draw(5, length, 2), draw(4, 2), draw(2)] + [draw(5, 3, 2)] * with_tail
    together = vmap(short_conv_shifted)(*inputs)
    alone = torch.stack([short_conv_shifted(*of) for of in zip(*inputs, strict=True)])
    slow = torch.stack([short_conv_reference(*of) for of in zip(*inputs, strict=True)])
    gradients = [torch.autograd.grad(y.sin().sum(), inputs) for y in (together, alone, slow)]
    torch.testing.assert_close((together, gradients[0]), (slow, gradients[2]))
    torch.testing.assert_close((alone, gradients[1]), (slow, gradients[2]))
