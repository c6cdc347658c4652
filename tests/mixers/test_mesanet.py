"""MesaNet: its first ridge, and what it holds."""

import torch
import torch.nn.functional as F

from zoo.mixers import MesaNet
from zoo.mixers.mesanet import RIDGE_LEAST


def test_the_first_ridge_is_one_and_is_not_decayed():
    mixer = MesaNet(d_model=8, num_heads=2)
    torch.testing.assert_close(F.softplus(mixer.ridge) + RIDGE_LEAST, torch.ones(2, 4))
