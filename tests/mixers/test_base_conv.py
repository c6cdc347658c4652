"""BaseConv: what its filters are not, and what it keeps; its definition: tests/definitions."""

import pytest
import torch

from zoo.mixers import BaseConv
from zoo.mixers.long_filter import ImplicitFilter, LongFilter
from zoo.state import StateSize


def test_the_implicit_filter_is_more_than_a_line():
    """With zoology's emb_dim = 3 every tap lies within rounding of a piecewise-linear function of t alone."""
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
