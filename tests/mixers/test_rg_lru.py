"""RG-LRU's initial values and numerics; its definition: tests/definitions."""

import pytest
import torch

from zoo.mixers import RGLRU


def test_initial_values_are_the_papers():
    torch.manual_seed(3)
    mixer = RGLRU(d_model=64, num_heads=4, d_inner=512)
    kept = torch.sigmoid(mixer.Lambda) ** 8
    assert kept.min() >= 0.9 - 1e-4 and kept.max() <= 0.999 + 1e-4
    assert kept.mean().item() == pytest.approx(0.9495, abs=0.005)
    assert kept.std().item() == pytest.approx(0.099 / 12**0.5, rel=0.1)
    assert mixer.gate_weight.std().item() == pytest.approx(128**-0.5, rel=0.05)
    assert (mixer.gate_bias == 0).all()
    assert mixer.Lambda.no_weight_decay


def test_a_shut_gate_has_finite_gradients():
    """There a is 1, and the root of 1 - a^2 has none."""
    mixer, x = RGLRU(d_model=8, num_heads=2), torch.randn(2, 20, 8)
    torch.nn.init.constant_(mixer.gate_bias, -300.0)
    mixer(x).square().sum().backward()
    assert all(p.grad.isfinite().all() for p in mixer.parameters())
