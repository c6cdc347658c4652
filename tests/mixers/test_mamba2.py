"""Mamba-2's initial values, published sizes and numerics; its definition: tests/definitions."""

import math

import pytest
import torch
import torch.nn.functional as F

from zoo.mixers import Mamba2


def test_initial_values_are_the_authors():
    torch.manual_seed(3)
    mixer = Mamba2(d_model=512, d_state=8, head_dim=4, n_layers=4)
    dt = F.softplus(mixer.dt_bias).log()
    assert (dt.min() >= math.log(1e-3) - 1e-3) and (dt.max() <= math.log(1e-1) + 1e-3)
    assert dt.mean().item() == pytest.approx(math.log(1e-2), abs=0.2)
    A = mixer.A_log.exp()
    assert (A.min() >= 1) and (A.max() <= 16)
    assert A.mean().item() == pytest.approx(8.5, abs=0.9)
    assert (mixer.D == 1).all() and (mixer.norm_weight == 1).all()
    assert mixer.out_proj.weight.std().item() == pytest.approx(1024**-0.5 / math.sqrt(3) / 2, rel=0.05)


def test_heads_are_64_wide_where_they_can_be():
    assert [(m.num_heads, m.head_dim) for m in (Mamba2(d_model=d, d_state=4) for d in (16, 64, 128))] == [
        (1, 32),
        (2, 64),
        (4, 64),
    ]
