"""Mamba in pieces and its initial values; its definition: tests/definitions."""

import math

import pytest
import torch
import torch.nn.functional as F

from zoo.mixers import Mamba


def test_initial_values_are_the_papers():
    torch.manual_seed(3)
    mixer = Mamba(d_model=64, d_state=8, n_layers=4)
    dt = F.softplus(mixer.dt_proj.bias)
    assert dt.min() >= 1e-3 * 0.999
    assert dt.max() <= 1e-1 * 1.001
    log = dt.log()  # uniform: mean in the middle, spread of a box
    assert log.mean().item() == pytest.approx(math.log(1e-2), abs=0.4)
    assert log.std().item() == pytest.approx(math.log(100) / math.sqrt(12), rel=0.2)
    assert mixer.dt_rank == 4
    assert mixer.dt_proj.weight.abs().max() <= 4**-0.5
    assert mixer.dt_proj.weight.std().item() == pytest.approx(4**-0.5 / math.sqrt(3), rel=0.1)
    torch.testing.assert_close(-mixer.A_log.exp(), -torch.arange(1.0, 9.0).expand(128, 8))
    assert (mixer.D == 1).all()
    assert mixer.out_proj.weight.std().item() == pytest.approx(128**-0.5 / math.sqrt(3) / 2, rel=0.05)
