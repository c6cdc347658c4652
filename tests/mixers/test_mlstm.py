"""mLSTM's initial values and numerics; its definition: tests/definitions."""

import pytest
import torch

from zoo.mixers import MLSTM


def test_input_gates_beyond_the_range_of_exp_are_no_trouble():
    """exp(200) is inf in float32, and its square in float64 too."""
    mixer, x = MLSTM(d_model=8, num_heads=2), torch.randn(2, 40, 8)
    with torch.no_grad():
        mixer.gates.bias[:2] = 200
    y = mixer(x)
    y.square().sum().backward()
    assert y.isfinite().all()
    assert all(p.grad.isfinite().all() for p in mixer.parameters())
    with torch.no_grad():
        mixer.gates.bias[:2] = 30  # large enough for |n q| > 1, where all that counts is the gates' ratio
        torch.testing.assert_close(y, mixer(x), rtol=1e-4, atol=1e-4)


def test_initial_values_are_the_authors():
    torch.manual_seed(3)
    mixer = MLSTM(d_model=64, num_heads=4, n_layers=2)
    write, keep = mixer.gates.bias.chunk(2)
    torch.testing.assert_close(keep, torch.tensor([3.0, 4.0, 5.0, 6.0]))
    assert write.abs().max() < 0.5 and (write != 0).all()
    assert (mixer.gates.weight == 0).all() and (mixer.skip == 1).all() and (mixer.norm_weight == 1).all()
    assert mixer.in_proj.weight.std().item() == pytest.approx((2 / 320) ** 0.5, rel=0.05)
    assert mixer.qkv.std().item() == pytest.approx((2 / 320) ** 0.5, rel=0.05)
    assert mixer.out_proj.weight.std().item() == pytest.approx(2 / 2 / 8, rel=0.05)
