"""GLA's initial values and numerics; its definition: tests/definitions."""

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


def test_large_inputs_and_long_sequences_stay_finite():
    mixer, x = GatedLinearAttention(d_model=16, num_heads=2, temperature=1.0), 100 * torch.randn(1, 4096, 16)
    torch.nn.init.normal_(mixer.decay_out.weight, std=3.0)  # decays down to exp(-hundreds)
    y = mixer(x)
    y.square().mean().backward()
    assert y.isfinite().all()
    assert all(p.grad.isfinite().all() for p in mixer.parameters())
