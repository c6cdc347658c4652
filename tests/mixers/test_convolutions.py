"""Convolutions: their filters, initial values and states."""

import math

import pytest
import torch
import torch.nn.functional as F

from zoo.kernels.fft_conv import fft_conv
from zoo.mixers import BaseConv, Hyena, LongConv
from zoo.mixers.long_filter import ImplicitFilter, LongFilter
from zoo.mixers.state import StateSize


def test_the_implicit_filter_is_more_than_a_line():
    """Every tap of zoology's, with emb_dim = 3, is nearly a piecewise-linear function of t alone."""
    features = ImplicitFilter(3, max_len=256, emb_dim=5, filter_dim=4).features
    assert torch.linalg.matrix_rank(features, rtol=0.05) >= 4


def test_an_explicit_filter_starts_at_the_size_of_its_input():
    """zoology's taps start from N(0, 1): a sum over a thousand of them is thirty times what goes in."""
    conv = LongFilter(64, max_len=1024)
    conv.skip.data.zero_()
    y, _ = conv(torch.randn(1, 1024, 64))
    assert y[:, -100:].std().item() == pytest.approx(1, rel=0.2)


def test_state_counts():
    assert BaseConv(d_model=64).state_size(1024) == StateSize(3 * 64, 2 * 64, 2 * 64)
    assert BaseConv(d_model=64, expand=4).state_size(1024) == StateSize(3 * 128, 2 * 128, 2 * 128)
    long = BaseConv(d_model=64, kernel_size=-1, max_len=256)
    assert long.state_size(1024) == StateSize(1024 * 64, 255 * 64, 255 * 64)
    assert long.state_size(10) == StateSize(640, 640, 640)


def test_the_filter_starts_at_a_scale_that_can_be_heard():
    """Drawing its layers from N(0, 0.02), as a model-wide rule once did, left it at 2e-5: the skip alone."""
    scales = []
    for seed in range(3):
        torch.manual_seed(seed)
        mixer = Hyena(d_model=64, max_len=1024)
        scales.append(mixer.filter(256).square().mean().sqrt().item())
    assert min(scales) > 5e-3


def test_features_of_a_time_vary_with_it():
    """Three features have one wave, of frequency 1e-4, and the filter is a function of a straight line."""
    features = Hyena(d_model=4, max_len=128).filter.features
    assert (features.std(0) > 0.1).sum() >= features.shape[1] - 2
    with pytest.raises(ValueError, match="emb_dim"):
        Hyena(d_model=4, max_len=128, emb_dim=3)


def test_trained_features_start_as_the_constants_and_move():
    constant, trained = (
        Hyena(d_model=4, max_len=32, emb_dim=5, train_features=train).filter for train in (False, True)
    )
    torch.testing.assert_close(trained.features.detach(), constant.features)
    trained(20).square().sum().backward()
    assert trained.features.grad is not None
    assert trained.features.grad[:20].abs().min() > 0 and (trained.features.grad[20:] == 0).all()


def test_three_features_are_enough_where_they_are_trained():
    assert Hyena(d_model=4, max_len=32, emb_dim=3, train_features=True).filter.features.shape == (32, 3)
    with pytest.raises(ValueError, match="at least 3"):
        Hyena(d_model=4, max_len=32, emb_dim=1, train_features=True)


def test_published_defaults_never_leave_zero_and_are_refused():
    """Weights of 0.002 squashed by 0.1 are a filter of zeros, and no gradient reaches them."""
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
