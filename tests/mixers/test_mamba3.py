"""Mamba-3's initial values and numerics; its definition: tests/definitions."""

import math

import pytest
import torch
import torch.nn.functional as F

from zoo.mixers import Mamba3


def test_initial_values_are_the_authors():
    torch.manual_seed(3)
    mixer = Mamba3(d_model=512, d_state=8, head_dim=4, n_layers=4)
    dt = F.softplus(mixer.dt_bias).log()
    assert (dt.min() >= math.log(1e-3) - 1e-3) and (dt.max() <= math.log(1e-1) + 1e-3)
    for ones in (mixer.B_bias, mixer.C_bias, mixer.B_norm.weight, mixer.C_norm.weight, mixer.D):
        assert (ones == 1).all()
    assert mixer.out_proj.weight.std().item() == pytest.approx(1024**-0.5 / math.sqrt(3) / 2, rel=0.05)


def test_angles_do_not_round_as_they_add_up():
    """4,096 steps of hundreds of radians each; a running sum in float32 would be off by 0.1."""
    mixer, x = Mamba3(d_model=8, d_state=4), 300 * torch.randn(1, 4096, 8)
    with torch.no_grad():
        _, state = mixer.extend(x)
        _, exact = mixer.double().extend(x.double())
    gap = (state.angle - exact.angle).abs()
    assert torch.minimum(gap, 2 * math.pi - gap).max() < 2e-2
    assert state.angle.min() >= 0 and state.angle.max() < 2 * math.pi + 1e-6
