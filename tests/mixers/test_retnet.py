"""Retention's initial values; its definition: tests/definitions."""

import pytest
import torch

from zoo.mixers import RetNet


def test_initial_values_are_the_authors():
    torch.manual_seed(3)
    mixer = RetNet(d_model=64, num_heads=2)
    for proj, fan in ((mixer.q, 128), (mixer.k, 128), (mixer.v, 192), (mixer.gate, 192)):
        assert proj.weight.std().item() == pytest.approx(2**-2.5 * (2 / fan) ** 0.5, rel=0.05)
    assert mixer.out_proj.weight.std().item() == pytest.approx((2 / 192) ** 0.5, rel=0.05)
