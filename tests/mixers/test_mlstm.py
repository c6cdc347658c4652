"""mLSTM's stabiliser, initial values and numerics; its definition: tests/definitions."""

import pytest
import torch

from zoo.mixers import MLSTM
from zoo.mixers.mlstm import State, running_max


def test_the_running_maximum_is_its_recurrence():
    log_f, log_i = -torch.rand(2, 3, 37).double(), 3 * torch.randn(2, 3, 37).double()
    m, ms = torch.randn(2, 3).double(), []
    got = running_max(log_f, log_i, m)
    for f, i in zip(log_f.unbind(-1), log_i.unbind(-1), strict=True):
        m = torch.maximum(f + m, i)
        ms.append(m)
    torch.testing.assert_close(got, torch.stack(ms, dim=-1), rtol=1e-14, atol=1e-14)


def test_the_maximum_is_a_matter_of_writing():
    """The same memory written with another m gives the same outputs."""
    torch.manual_seed(0)
    mixer, x = MLSTM(d_model=8, num_heads=2).double(), torch.randn(2, 9, 8, dtype=torch.float64)
    torch.nn.init.normal_(mixer.gates.weight, std=0.5)
    _, state = mixer.extend(x)
    shift = torch.tensor([[5.0, -3.0], [0.5, 8.0]], dtype=torch.float64)
    by = torch.exp(-shift)
    other = State(state.C * by[..., None, None], state.n * by[..., None], state.m + shift, state.tail)
    y, _ = mixer.extend(x, state)
    torch.testing.assert_close(mixer.extend(x, other)[0], y, rtol=1e-10, atol=1e-12)


def test_the_normaliser_is_alive():
    """Larger keys and queries than a fresh model's: |n q| > 1, and all of n reaches the output."""
    mixer, x = MLSTM(d_model=8, num_heads=2).double(), torch.randn(1, 40, 8, dtype=torch.float64)
    torch.nn.init.normal_(mixer.qkv, std=5.0)
    _, state = mixer.extend(x)
    n = state.n.requires_grad_()
    y, _ = mixer.extend(x, state._replace(n=n))
    (grad,) = torch.autograd.grad(y.square().sum(), n)
    assert (grad != 0).all()


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
