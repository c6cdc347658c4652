"""The long convolution's squash, and its initial weights."""

import math

import pytest
import torch
import torch.nn.functional as F

from zoo.kernels.fft_conv import fft_conv
from zoo.mixers import LongConv
from zoo.mixers.long_filter import LongFilter


def test_published_defaults_never_leave_zero_and_are_refused():
    """Weights of 0.002 squashed by 0.1 are a filter of zeros, and no gradient reaches them."""
    taps = (0.002 * torch.randn(8, 64)).requires_grad_()
    dead = F.softshrink(taps, 0.1)
    dead.sum().backward()
    assert not dead.any()
    assert not taps.grad.any()
    with pytest.raises(ValueError, match=r"squash \(=0.1\) must be below 0.002"):
        LongConv(d_model=8, max_len=64, squash=0.1, init="normal")


@pytest.mark.parametrize("init", ["normal", "double_exp"])
def test_a_squashed_filter_is_sparse_but_alive(init: str):
    mixer = LongConv(d_model=32, max_len=64, squash=0.001, init=init)
    mixer(torch.randn(2, 64, 32)).square().sum().backward()
    k = F.softshrink(mixer.conv.taps, 0.001)
    alive = (k != 0).float().mean(1)
    assert alive.min() > 0.1 and alive.mean() < 0.95
    assert ((mixer.conv.taps.grad != 0) == (k != 0)).float().mean() > 0.99


@pytest.mark.parametrize("length", [20, 100])  # through matrices and through transforms
def test_taps_beyond_the_sequence_see_no_inputs_to_come(length: int):
    """A transform of 2 T points cuts a longer filter there: what is beyond T comes round to later inputs."""
    taps = torch.randn(4, 3 * length, dtype=torch.float64)
    last = torch.zeros(1, length, 4, dtype=torch.float64)
    last[:, -1] = 1
    points = torch.fft.rfft(taps, n=2 * length) * torch.fft.rfft(last.mT, n=2 * length)
    assert torch.fft.irfft(points)[..., : length - 1].abs().max() > 1  # as the reference has it
    conv = LongFilter(4, 3 * length).double()
    conv.taps.data.copy_(taps)
    for y in (fft_conv(last, taps), conv(last)[0]):
        assert y[:, : length - 1].abs().max() < 1e-12


def test_double_exponential_weights_fade_at_a_rate_for_each_channel():
    torch.manual_seed(0)
    mixer = LongConv(d_model=64, max_len=4096, squash=0.0)
    size = mixer.conv.taps.detach().unflatten(1, (4, 1024)).square().mean(-1).sqrt()
    times = (torch.arange(4096) / 4096).unflatten(0, (4, 1024))
    for channel in (0, 32, 63):
        rate = 32 ** (channel / 64)
        expected = 0.02 * torch.exp(-2 * times * rate).mean(-1).sqrt()
        torch.testing.assert_close(size[channel], expected, rtol=0.1, atol=0)
    flat = LongConv(d_model=64, max_len=4096, init="normal", squash=0.0).conv.taps
    assert flat.std().item() == pytest.approx(0.002, rel=0.05)
    assert math.isclose(flat[:, :100].std().item(), flat[:, -100:].std().item(), rel_tol=0.1)
