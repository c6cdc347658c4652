"""GLA's initial values, sizes and numerics; its definition: tests/definitions."""

import pytest
import torch

from zoo.mixers import GatedLinearAttention


def test_initial_values_are_the_authors():
    torch.manual_seed(3)
    mixer = GatedLinearAttention(d_model=64, num_heads=2)
    for proj in (mixer.q, mixer.v, mixer.gate, mixer.decay_in, mixer.decay_out, mixer.out_proj):
        fan = sum(proj.weight.shape)
        assert proj.weight.std().item() == pytest.approx(2**-2.5 * (2 / fan) ** 0.5, rel=0.08)
    assert (mixer.decay_out.bias == 0).all()


def test_a_closed_gate_forgets_and_an_open_one_keeps():
    mixer = GatedLinearAttention(d_model=8, num_heads=1).double()
    _, state = mixer.extend(torch.randn(1, 5, 8, dtype=torch.float64))
    for bias, kept in ((800.0, 1.0), (-1600.0, 0.0)):
        mixer.decay_out.bias.data.fill_(bias)
        _, later = mixer.extend(torch.zeros(1, 1, 8, dtype=torch.float64), state)
        torch.testing.assert_close(later.kv, kept * state.kv)


def test_large_inputs_and_long_sequences_stay_finite():
    mixer, x = GatedLinearAttention(d_model=16, num_heads=2, temperature=1.0), 100 * torch.randn(1, 4096, 16)
    torch.nn.init.normal_(mixer.decay_out.weight, std=3.0)  # decays down to exp(-hundreds)
    y = mixer(x)
    y.square().mean().backward()
    assert y.isfinite().all()
    assert all(p.grad.isfinite().all() for p in mixer.parameters())
