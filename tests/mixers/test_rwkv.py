"""RWKV-4 to 7: their initial values, and the value residual of RWKV-7."""

import math

import pytest
import torch

from tests.definitions.rwkv7 import with_value
from tests.independence import difference
from tests.registry import compose
from zoo.mixers import RWKV4, RWKV5, RWKV6, RWKV7
from zoo.mixers.base import Mixer
from zoo.mixers.rwkv7 import VALUE
from zoo.model import build_model

WIDTH = 12
each_place = pytest.mark.parametrize(("layer", "n_layers"), [(0, 3), (1, 3), (2, 3), (0, 1)])
both_kinds = pytest.mark.parametrize("kind", [RWKV5, RWKV6])


def place_in_depth(layer: int, n_layers: int) -> tuple[float, float]:
    return layer / (n_layers - 1) if n_layers > 1 else 0, 1 - layer / n_layers


def check_orthogonal(matrix: torch.Tensor, gain: float = 1) -> None:
    torch.testing.assert_close(matrix @ matrix.T, gain**2 * torch.eye(len(matrix)), atol=1e-5, rtol=0)


@each_place
def test_initial_values_of_rwkv_4_are_the_published_ones(layer, n_layers):
    width, mixer = 9, RWKV4(d_model=9, layer=layer, n_layers=n_layers)
    late, early = place_in_depth(layer, n_layers)
    for c in range(width):
        x = c / width
        mu_k, mu_v, mu_r = (1 - mixer.shift.share[:, c]).tolist()
        assert mu_k == pytest.approx(x**early, abs=1e-6)
        assert mu_v == pytest.approx(x**early + 0.3 * late, abs=1e-6)
        assert mu_r == pytest.approx(x ** (0.5 * early), abs=1e-6)
        assert mixer.decay[c].item() == pytest.approx(
            -5 + 8 * (c / (width - 1)) ** (0.7 + 1.3 * late), abs=1e-5
        )
        assert mixer.bonus[c].item() == pytest.approx(math.log(0.3) + 0.5 * ((c + 1) % 3 - 1), abs=1e-6)
    for zero in (mixer.key, mixer.receptance, mixer.out_proj):
        assert not zero.weight.any()
    check_orthogonal(mixer.value.weight)


@each_place
@both_kinds
def test_initial_values_of_rwkv_5_and_6_are_the_published_ones(kind, layer, n_layers):
    mixer = kind(d_model=WIDTH, head_dim=4, layer=layer, n_layers=n_layers)
    late, early = place_in_depth(layer, n_layers)
    decays = mixer.decay if kind is RWKV5 else mixer.decay.base
    for c in range(WIDTH):
        part = c / (WIDTH - 1)
        assert decays[c].item() == pytest.approx(-6 + 5 * part ** (0.7 + 1.3 * late), abs=1e-5)
        bonus = late * (1 - part) + ((c + 1) % 3 - 1) * 0.1
        assert mixer.heads.bonus[c].item() == pytest.approx(bonus, abs=1e-6)
        k, r = (c / WIDTH) ** early, (c / WIDTH) ** (0.5 * early)
        wanted = [1 - r, 1 - k, 1 - (k + 0.3 * late), 1 - r]  # of r, k, v, g
        if kind is RWKV6:
            wanted = [1 - k, *wanted]  # of w
            assert mixer.shift.first_share[c].item() == pytest.approx(1 - k, abs=1e-6)
        assert mixer.shift.share[:, c].tolist() == pytest.approx(wanted, abs=1e-6)
    heads = mixer.heads
    for linear, gain in ((heads.receptance, 1), (heads.key, 0.1), (heads.value, 1), (heads.gate, 0.1)):
        check_orthogonal(linear.weight, gain)
    assert not heads.out_proj.weight.any()
    assert heads.norm.weight[0].item() == pytest.approx(((1 + layer) / n_layers) ** 0.7)


def test_small_networks_start_silent_and_can_learn():
    mixer = RWKV6(d_model=WIDTH, head_dim=4)
    for network in (mixer.shift, mixer.decay):
        assert not network.down.any()
        assert 0.009 < network.up.abs().max() <= 0.01


@both_kinds
@pytest.mark.parametrize("d_model", [32, 64, 128])
def test_heads_are_64_wide_where_the_model_is(kind, d_model):
    with torch.device("meta"):
        mixer = kind(d_model=d_model)
    assert mixer.head_dim == min(64, d_model)
    assert mixer.state_size(1000).resident == d_model * min(64, d_model) + d_model


def moved(**settings: int) -> Mixer:
    """Build RWKV-7 in float64, with weights away from their initial values."""
    mixer = RWKV7(d_model=8, **({"head_dim": 4, "rank": 3, "gate_rank": 3} | settings)).double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter += torch.randn_like(parameter) / 4
    return mixer


def test_layers_above_read_the_lowest_layers_values():
    lower, upper = moved(), moved(layer=1)
    x = torch.randn(2, 37, 8, dtype=torch.float64, requires_grad=True)
    low, _, left = lower.extend_linked(x, None, {})
    y, _, passed = upper.extend_linked(low, None, left)
    low_again, v_0 = with_value(lower, x, None)
    y_again, _ = with_value(upper, low_again, v_0)
    assert passed[VALUE] is left[VALUE], "all layers read the lowest one's, not their neighbour's"
    wanted = [x, *lower.parameters(), *upper.parameters()]
    ours, theirs = (torch.autograd.grad(out.sin().sum(), wanted) for out in (y, y_again))
    assert difference(y.detach(), y_again.detach()) < 1e-10
    assert max(difference(a, b) for a, b in zip(ours, theirs, strict=True)) < 1e-9
    assert all(g.any() for g in ours), "every parameter is alive, those of the value residual too"


@pytest.mark.parametrize("decoding", [False, True])
def test_a_model_passes_the_lowest_layers_values_up(decoding: bool):
    """A fresh lower layer puts out zero, so that its values reach the upper layer by no other way."""
    model = build_model(compose(["mixer=rwkv7", "model.layers=[mixer]", "n_layers=2", "d_model=8"]))
    lower, upper = model.mixers
    torch.nn.init.normal_(upper.out_proj.weight)
    tokens = torch.arange(12).view(2, 6)
    y = model.extend(tokens)[0] if decoding else model(tokens)
    (grad,) = torch.autograd.grad(y.square().sum(), lower.value.weight)
    assert not lower.out_proj.weight.any() and grad.any()


def test_a_value_from_below_changes_what_comes_out_at_any_cut():
    mixer = moved(layer=1)
    x, value = torch.randn(2, 20, 8, dtype=torch.float64), torch.randn(2, 20, 8, dtype=torch.float64)
    whole, _, _ = mixer.extend_linked(x, None, {VALUE: value})
    assert not torch.allclose(whole, mixer(x))
    head, state, _ = mixer.extend_linked(x[:, :7], None, {VALUE: value[:, :7]})
    tail, _, _ = mixer.extend_linked(x[:, 7:], state, {VALUE: value[:, 7:]})
    torch.testing.assert_close(torch.cat([head, tail], dim=1), whole)


@each_place
def test_initial_values_of_rwkv_7_are_the_published_ones(layer, n_layers):
    width, size = WIDTH, 4
    mixer = RWKV7(d_model=width, head_dim=size, layer=layer, n_layers=n_layers)
    late, early = place_in_depth(layer, n_layers)
    for c in range(width):
        linear = c / (width - 1) - 0.5
        zigzag = (c % size - (size - 1) / 2) / ((size - 1) / 2)
        zigzag *= abs(zigzag)
        for share, power in zip(mixer.shift.share[:, c], (0.2, 0.9, 0.7, 0.7, 0.9, 0.2), strict=True):
            assert share.item() == pytest.approx(1 - (c / width) ** (power * early), abs=1e-6)
        decay = -6 + 6 * (c / (width - 1)) ** (1 + late**0.3) + 0.5 + zigzag * 2.5
        assert mixer.decay.base[c].item() == pytest.approx(decay, abs=1e-5)
        assert mixer.rate.base[c].item() == pytest.approx(-0.19 + zigzag * 0.3 + linear * 0.4, abs=1e-6)
        assert mixer.k_k[c].item() == pytest.approx(0.71 - linear * 0.1, abs=1e-6)
        if mixer.share is not None:
            assert mixer.share.base[c].item() == pytest.approx(0.73 - linear * 0.4, abs=1e-6)
    assert (mixer.k_a == 1.02).all()
    assert (mixer.r_k == -0.04).all()
    assert mixer.norm.weight[0].item() == pytest.approx(((1 + layer) / n_layers) ** 0.7)
    for linear, gain in ((mixer.receptance, 1), (mixer.key, 0.1), (mixer.value, 1)):
        check_orthogonal(linear.weight, gain)
    assert not mixer.out_proj.weight.any()
    for network in (mixer.decay, mixer.rate, mixer.gate):
        assert not network.down.any()
        check_orthogonal(network.up.T, (0.01 * 32 / 12) ** 0.5)  # 32 by 12


@pytest.mark.parametrize(("d_model", "rank", "gate_rank"), [(64, 32, 32), (128, 32, 64), (2048, 128, 224)])
def test_ranks_are_the_suggested_ones(d_model, rank, gate_rank):
    with torch.device("meta"):
        mixer = RWKV7(d_model=d_model)
    assert (mixer.decay.down.shape[1], mixer.gate.down.shape[1]) == (rank, gate_rank)
