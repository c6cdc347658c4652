"""RWKV-5 and 6: what fresh layers are."""

import pytest
import torch

from zoo.mixers import RWKV5, RWKV6

LAYERS = [(0, 3), (1, 3), (2, 3), (0, 1)]
WIDTH = 12


def place_in_depth(layer: int, n_layers: int) -> tuple[float, float]:
    return layer / (n_layers - 1) if n_layers > 1 else 0, 1 - layer / n_layers


@pytest.mark.parametrize(("layer", "n_layers"), LAYERS)
@pytest.mark.parametrize("kind", [RWKV5, RWKV6])
def test_what_both_start_with_is_published(kind, layer, n_layers):
    mixer = kind(d_model=WIDTH, head_dim=4, layer=layer, n_layers=n_layers)
    late, _ = place_in_depth(layer, n_layers)
    decays = mixer.decay if kind is RWKV5 else mixer.decay.base
    for c in range(WIDTH):
        part = c / (WIDTH - 1)
        assert decays[c].item() == pytest.approx(-6 + 5 * part ** (0.7 + 1.3 * late), abs=1e-5)
        bonus = late * (1 - part) + ((c + 1) % 3 - 1) * 0.1
        assert mixer.heads.bonus[c].item() == pytest.approx(bonus, abs=1e-6)
    heads = mixer.heads
    for linear, gain in ((heads.receptance, 1), (heads.key, 0.1), (heads.value, 1), (heads.gate, 0.1)):
        gram = linear.weight @ linear.weight.T
        torch.testing.assert_close(gram, gain**2 * torch.eye(WIDTH), atol=1e-5, rtol=0)
    assert not heads.out_proj.weight.any()
    assert heads.norm.weight[0].item() == pytest.approx(((1 + layer) / n_layers) ** 0.7)


@pytest.mark.parametrize(("layer", "n_layers"), LAYERS)
@pytest.mark.parametrize("kind", [RWKV5, RWKV6])
def test_initial_shares_of_the_previous_token_are_published(kind, layer, n_layers):
    mixer = kind(d_model=WIDTH, head_dim=4, layer=layer, n_layers=n_layers)
    late, early = place_in_depth(layer, n_layers)
    for c in range(WIDTH):
        k, r = (c / WIDTH) ** early, (c / WIDTH) ** (0.5 * early)
        wanted = [1 - r, 1 - k, 1 - (k + 0.3 * late), 1 - r]  # of r, k, v, g
        if kind is RWKV6:
            wanted = [1 - k, *wanted]  # of w
            assert mixer.shift.first_share[c].item() == pytest.approx(1 - k, abs=1e-6)
        assert mixer.shift.share[:, c].tolist() == pytest.approx(wanted, abs=1e-6)


def test_small_networks_start_silent_and_can_learn():
    mixer = RWKV6(d_model=WIDTH, head_dim=4)
    for network in (mixer.shift, mixer.decay):
        assert not network.down.any()
        assert 0.009 < network.up.abs().max() <= 0.01


@pytest.mark.parametrize("kind", [RWKV5, RWKV6])
@pytest.mark.parametrize("d_model", [32, 64, 128])
def test_heads_are_64_wide_where_the_model_is(kind, d_model):
    with torch.device("meta"):
        mixer = kind(d_model=d_model)
    assert mixer.head_dim == min(64, d_model)
    assert mixer.state_size(1000).resident == d_model * min(64, d_model) + d_model
