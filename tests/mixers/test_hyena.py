"""Hyena's filters and limit; its definition: tests/definitions."""

import pytest
import torch

from tests.mixers.golden import from_yaml
from zoo.mixers import Hyena


def test_the_filter_starts_at_a_scale_that_can_be_heard():
    """Drawing its layers from N(0, 0.02), as a model-wide rule once did, left it at 2e-5: the skip alone."""
    scales = []
    for seed in range(3):
        torch.manual_seed(seed)
        mixer = Hyena(d_model=64, max_len=1024)
        scales.append(mixer.filter(256).square().mean().sqrt().item())
    assert min(scales) > 5e-3


def test_features_of_a_time_vary_with_it():
    """With three of them the only wave has frequency 1e-4 and the filter is a function of a straight line."""
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


def test_the_window_falls_where_it_says():
    mixer = Hyena(d_model=8, max_len=1001, decay=(0.25, 0.5))
    assert mixer.filter.window[250, -1].item() == pytest.approx(0.01, rel=1e-3)
    assert mixer.filter.window[500, 0].item() == pytest.approx(0.01, rel=1e-3)


def test_the_yaml_reaches_the_longest_sequence_of_the_figures():
    assert from_yaml("hyena", 16).max_len >= 1024
