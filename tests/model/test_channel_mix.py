"""The channel mixes: their equations, the state they carry, and what they start with."""

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, stack_module_state, vmap

from zoo.blocks.channel_mix import ChannelMix, ChannelMix7
from zoo.mixers.cases import awake

KINDS = [ChannelMix, ChannelMix7]
each = pytest.mark.parametrize("kind", KINDS)


def by_definition(m: ChannelMix | ChannelMix7, x: Tensor) -> Tensor:
    """One sequence [T D], one token after another."""
    before, ys = torch.zeros_like(x[0]), []
    for x_t in x:
        mixed = [mu * x_t + (1 - mu) * before for mu in 1 - m.shift.share]
        k = m.key.weight @ mixed[0]
        y = m.value.weight @ (k * (k > 0)) ** 2
        if isinstance(m, ChannelMix):
            y = y / (1 + torch.exp(-(m.receptance.weight @ mixed[1])))
        ys.append(y)
        before = x_t
    return torch.stack(ys)


def made(kind: type, **settings: float) -> ChannelMix | ChannelMix7:
    return awake(kind(6, **settings)).double()


@each
@pytest.mark.parametrize("settings", [{}, {"ratio": 0.5, "layer": 1, "n_layers": 3}])
def test_it_is_its_equation(kind, settings):
    mix, x = made(kind, **settings), torch.randn(2, 9, 6, dtype=torch.float64, requires_grad=True)
    wanted = torch.stack([by_definition(mix, row) for row in x])
    torch.testing.assert_close(mix(x), wanted)
    inputs = [x, *mix.parameters()]
    ours, theirs = (torch.autograd.grad(y.sin().sum(), inputs) for y in (mix(x), wanted))
    torch.testing.assert_close(ours, theirs)
    assert all(g.any() for g in ours)


@each
def test_members_of_a_population_are_as_alone(kind):
    members, x = [made(kind) for _ in range(2)], torch.randn(2, 3, 5, 6, dtype=torch.float64)
    weights, buffers = stack_module_state(members)
    together = vmap(lambda w, b, x: functional_call(members[0], (w, b), (x,)))(weights, buffers, x)
    torch.testing.assert_close(together, torch.stack([m(x) for m, x in zip(members, x, strict=True)]))


@each
@pytest.mark.parametrize(("layer", "n_layers"), [(0, 1), (0, 3), (2, 3)])
def test_initial_values_are_the_published_ones(kind, layer, n_layers):
    mix, power = kind(6, layer=layer, n_layers=n_layers), 4 if kind is ChannelMix7 else 1
    for c in range(6):
        for share in mix.shift.share[:, c].tolist():
            assert share == pytest.approx(1 - (c / 6) ** ((1 - layer / n_layers) ** power), abs=1e-6)
    torch.testing.assert_close(mix.key.weight.T @ mix.key.weight, torch.eye(6), atol=1e-5, rtol=0)
    assert not mix.value.weight.any()
    assert kind is ChannelMix7 or not mix.receptance.weight.any()
    assert mix.key.weight.shape == (24, 6)


@each
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ratio": 0.01}, r"ratio \(=0.01\) times d_model \(=6\) must be at least 1"),
        ({"layer": 2}, r"layer \(=2\) must be at least 0 and below n_layers \(=2\)"),
    ],
)
def test_impossible_settings_are_refused(kind, wrong, message):
    with pytest.raises(ValueError, match=message):
        kind(6, **wrong)
