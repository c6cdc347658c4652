"""Gated DeltaNet's initial decays; its definition: tests/definitions."""

import math

import pytest
import torch
import torch.nn.functional as F

from zoo.mixers import GatedDeltaNet


def test_initial_decays_are_the_published_ones():
    """A uniform on (0, 16), step sizes log-uniform on (0.001, 0.1), neither drawn to 0 by weight decay."""
    torch.manual_seed(0)
    mixer = GatedDeltaNet(d_model=4096, num_heads=2048)
    A, dt = mixer.forget.A_log.exp(), F.softplus(mixer.forget.dt_bias)
    assert A.mean().item() == pytest.approx(8, rel=0.05)
    assert A.std().item() == pytest.approx(16 / math.sqrt(12), rel=0.05)
    assert (A.min() > 0) & (A.max() <= 16)
    assert 0.999e-3 < dt.min() < 1.1e-3
    assert 0.09 < dt.max() < 0.1001
    assert dt.log().mean().item() == pytest.approx(math.log(1e-2), rel=0.03)
