"""HGRN2's floors, sizes and numerics; its definition: tests/definitions."""

import pytest
import torch

from zoo.mixers import HGRN2


@pytest.mark.parametrize("layer", [0, 1, 3])
def test_no_gate_falls_below_the_floor_of_its_layer(layer: int):
    mixer = HGRN2(d_model=8, num_heads=2, layer=layer, n_layers=4).double()
    f = torch.linspace(-200, 200, 401, dtype=torch.float64)[:, None].expand(1, -1, 8)
    log_decay, k = mixer._gates(f)
    assert log_decay.exp().min().item() == pytest.approx(layer / 4, abs=1e-7)
    assert log_decay.max() <= 0
    torch.testing.assert_close(k, 1 - log_decay.exp(), rtol=0, atol=1e-14)
    assert (k > 0).all(), "1 - a as a difference rounds to 0, and the gate is then stuck"


def test_floors_are_learned_without_decay_and_the_lowest_layer_has_none():
    assert HGRN2(d_model=8, num_heads=2, layer=0, n_layers=2).floor_logit is None
    floor = HGRN2(d_model=8, num_heads=2, layer=1, n_layers=2).floor_logit
    assert floor.requires_grad and floor.no_weight_decay
