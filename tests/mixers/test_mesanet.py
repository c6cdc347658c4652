"""MesaNet: its first ridge, and what it holds."""

import torch
import torch.nn.functional as F

from tests.mixers.golden import two_layers
from zoo.mixers import MesaNet
from zoo.mixers.mesanet import RIDGE_LEAST


def test_the_first_ridge_is_one_and_is_not_decayed():
    mixer = MesaNet(d_model=8, num_heads=2)
    torch.testing.assert_close(F.softplus(mixer.ridge) + RIDGE_LEAST, torch.ones(2, 4))


def test_both_sums_and_the_tails_count():
    assert two_layers("mesanet", 64, 1024, num_heads=2).resident == 2 * (2 * 2 * 32**2 + 2 * 3 * 64)
