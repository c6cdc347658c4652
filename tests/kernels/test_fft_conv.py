"""The causal convolution against the sum it abbreviates."""

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from zoo.kernels.fft_conv import fft_conv, fft_conv_fft, fft_conv_reference
from zoo.kernels.fft_conv.fft import fast_length

FORMS = [fft_conv, fft_conv_fft, fft_conv_reference]
SHAPES = [
    (1, 1, 1, 1),
    (2, 5, 3, 5),
    (1, 63, 2, 20),
    (2, 65, 3, 65),
    (2, 131, 2, 131),
    (1, 70, 2, 100),
    (3, 90, 1, 4),
]


def by_definition(u: Tensor, k: Tensor) -> Tensor:
    y = torch.zeros_like(u)
    for t in range(u.shape[1]):
        for s in range(min(t + 1, k.shape[1])):
            y[:, t] += k[:, s] * u[:, t - s]
    return y


def draw(B: int, T: int, D: int, S: int) -> tuple[Tensor, Tensor]:
    return torch.randn(B, T, D, dtype=torch.float64), torch.randn(D, S, dtype=torch.float64)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_the_sum_it_abbreviates(form, shape):
    u, k = draw(*shape)
    torch.testing.assert_close(form(u, k), by_definition(u, k), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_agree_with_the_written_out_form(shape):
    inputs = [x.requires_grad_() for x in draw(*shape)]
    weights = torch.randn_like(inputs[0])
    fast = torch.autograd.grad((fft_conv_fft(*inputs) * weights).sum(), inputs)
    slow = torch.autograd.grad((fft_conv_reference(*inputs) * weights).sum(), inputs)
    torch.testing.assert_close(fast, slow, rtol=1e-11, atol=1e-11)


def test_gradients_agree_with_finite_differences():
    inputs = [x.requires_grad_() for x in draw(2, 9, 2, 9)]
    assert torch.autograd.gradcheck(fft_conv_fft, inputs)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("in_dims", [(0, 0), (None, 0), (0, None), (1, 1)])
def test_members_of_a_population_are_convolved_apart(form, in_dims):
    pairs = [draw(2, 70, 3, 70) for _ in range(3)]
    stacks = [
        one[0] if dim is None else torch.stack(one, dim)
        for one, dim in zip(zip(*pairs, strict=True), in_dims, strict=True)
    ]
    inputs = [x.requires_grad_() for x in stacks]
    y = vmap(form, in_dims)(*inputs)
    alone = [
        form(*[x if dim is None else x.select(dim, i) for x, dim in zip(inputs, in_dims, strict=True)])
        for i in range(3)
    ]
    torch.testing.assert_close(y, torch.stack(alone), rtol=1e-11, atol=1e-11)
    together = torch.autograd.grad(y.square().sum(), inputs)
    apart = torch.autograd.grad(torch.stack(alone).square().sum(), inputs)
    torch.testing.assert_close(together, apart, rtol=1e-10, atol=1e-10)


def test_half_precision_keeps_its_dtype():
    u, k = (x.to(torch.bfloat16) for x in draw(2, 100, 3, 100))
    y = fft_conv(u, k)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.double(), by_definition(u.double(), k.double()), rtol=0.02, atol=0.1)


@pytest.mark.parametrize("least", [1, 7, 127, 128, 131, 511, 2047])
def test_fast_lengths_are_long_enough_and_smooth(least):
    n = fast_length(least)
    assert n >= least
    assert n % 2 == 0
    assert 2**60 * 3**40 * 5**30 % n == 0


@pytest.mark.parametrize(("past", "taps"), [(0, 9), (4, 2), (4, 9), (70, 3), (70, 75)])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_past_goes_before_and_is_not_put_out_again(past, taps, length):
    u, k = draw(2, past + length, 3, taps)
    got = fft_conv(u[:, past:], k, u[:, :past])
    torch.testing.assert_close(got, by_definition(u, k)[:, past:], rtol=1e-11, atol=1e-11)
