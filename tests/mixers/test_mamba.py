"""Mamba in pieces and its initial values; its definition: tests/definitions."""

import math

import pytest
import torch
import torch.nn.functional as F

from tests.mixers.population import check_population
from zoo.mixers import Mamba


def test_a_long_sequence_in_pieces_is_the_whole():
    mixer, x = Mamba(d_model=4, d_state=3).double(), torch.randn(2, 150, 4, dtype=torch.float64)
    with torch.no_grad():
        parts, state = [], None
        for piece in x.split([1, 16, 17, 1, 64, 51], dim=1):
            y, state = mixer.extend(piece, state)
            parts.append(y)
        torch.testing.assert_close(torch.cat(parts, 1), mixer(x), rtol=1e-10, atol=1e-11)


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
    assert {n for n, p in mixer.named_parameters() if getattr(p, "no_weight_decay", False)} == {"A_log", "D"}


@pytest.mark.parametrize("length", [1, 3, 37])
def test_members_of_a_population_are_as_alone(length):
    check_population(lambda: Mamba(d_model=6, d_state=3), torch.randn(2, 2, length, 6, dtype=torch.float64))


@pytest.mark.parametrize("wrong", [{"d_state": 0}, {"expand": 0}, {"dt_rank": 0}, {"kernel_size": 0}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} .* must be at least 1"):
        Mamba(d_model=8, **({"d_state": 4} | wrong))
