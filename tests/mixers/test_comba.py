"""Comba's initial values; its definition: tests/definitions."""

import math

import torch

from zoo.mixers import Comba
from zoo.mixers.base import Mixer


def built(**settings: float) -> Mixer:
    torch.manual_seed(0)
    return Comba(**({"d_model": 8, "num_heads": 2, "kernel_size": 1} | settings)).double()


def test_initial_values():
    mixer = built(correction=0.5)
    assert (mixer.feedback.sigmoid() == 1 / (1 + math.exp(-1))).all()
    assert (mixer.correction == 0.5).all()
