"""Comba: what its two feedbacks do."""

import math

import torch
from torch import Tensor

from zoo.mixers import Comba
from zoo.mixers.base import Mixer


def built(**settings: float) -> Mixer:
    torch.manual_seed(0)
    return Comba(**({"d_model": 8, "num_heads": 2, "kernel_size": 1} | settings)).double()


def test_initial_values():
    mixer = built(correction=0.5)
    assert (mixer.feedback.sigmoid() == 1 / (1 + math.exp(-1))).all()
    assert (mixer.correction == 0.5).all()


def shares(mixer: Mixer, x: Tensor) -> Tensor:
    """A token twice in a row: the second memory over the first, for each head."""
    _, once = mixer.extend(x)
    _, twice = mixer.extend(x, once)
    return (twice.memory / once.memory).amax((0, 2, 3))


@torch.no_grad()
def test_the_feedback_reads_the_memory_before_it_forgets_and_its_strength_counts():
    """S_1 = beta k v^T is an eigenvector of the second step: S_2 = (alpha - b beta + 1) S_1."""
    mixer, x = built(), torch.randn(1, 1, 8, dtype=torch.float64)
    mixer.forget.A_log.fill_(math.log(8.0))
    mixer.forget.dt_bias.fill_(0.0)
    alpha, beta = mixer.forget(x).exp().flatten(), mixer.beta(x).sigmoid().flatten()
    for strength in (-1.0, 3.0):
        mixer.feedback.fill_(strength)
        b = 1 / (1 + math.exp(-strength))
        torch.testing.assert_close(shares(mixer, x), alpha - b * beta + 1, rtol=1e-5, atol=1e-5)
