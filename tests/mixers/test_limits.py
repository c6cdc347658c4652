"""Mixers that lead back to others: the limit in which each does, by tests of their own."""

import pytest
import torch
import torch.nn.functional as F

from zoo import mixers
from zoo.kernels.diagonal_scan import diagonal_scan

X = torch.randn(2, 30, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def built(name: str, **settings: object):
    torch.manual_seed(0)
    return getattr(mixers, name)(d_model=16, **settings).double()


def test_slots_of_equal_weights_hold_the_mean_of_all_values():
    mixer = built("BoundedMemoryAttention", num_heads=2, bias=False)
    torch.nn.init.zeros_(mixer.control.weight)
    values = mixer.qkv(X)[2].transpose(1, 2).flatten(2)
    mean = values.cumsum(1) / torch.arange(1, 31)[:, None]
    torch.testing.assert_close(mixer(X), mixer.out_proj(mean))


def test_slots_without_their_weights_would_go_on_wrong():
    """fla drops them between two calls."""
    mixer = built("BoundedMemoryAttention", num_heads=2)
    _, state = mixer.extend(X[:, :15])
    forgotten = mixer.extend(X[:, 15:], state._replace(log_z=torch.full_like(state.log_z, -torch.inf)))[0]
    assert (forgotten - mixer(X)[:, 15:]).abs().max() > 0.1


def test_a_mingru_is_a_scan():
    mixer = built("MinGRU")
    u, z = mixer.in_proj(X).chunk(2, dim=-1)
    z = z.sigmoid()
    y, _ = diagonal_scan(1 - z, z * torch.where(u >= 0, u + 0.5, u.sigmoid()))
    torch.testing.assert_close(mixer(X), mixer.out_proj(y))


def test_a_minlstm_goes_on_from_h_itself():
    """The public one resumes from log g(h), another number."""
    mixer = built("MinLSTM")
    _, state = mixer.extend(X[:, :15])
    torch.testing.assert_close(mixer.extend(X[:, 15:], state)[0], mixer(X)[:, 15:])
    other = state._replace(h=torch.where(state.h >= 0, state.h + 0.5, state.h.sigmoid()))
    assert not torch.allclose(mixer.extend(X[:, 15:], other)[0], mixer(X)[:, 15:])


def test_without_the_second_softmax_differential_attention_is_attention():
    mixer = built("DifferentialAttention", num_heads=2, bias=False)
    with torch.no_grad():  # exp(0) - exp(log 1.2) + .2 = 0
        mixer.exponents.zero_()
        mixer.exponents[2:, 0] = (1 + X.new_tensor(mixer.first)).log().sqrt()
    q, k, v = mixer.qkv(X)
    wide = v.unflatten(1, (2, 2)).transpose(2, 3).flatten(3)
    y = F.scaled_dot_product_attention(q[:, ::2], k[:, ::2], wide, is_causal=True)
    y = (1 - mixer.first) * F.rms_norm(y, (8,), eps=1e-5).transpose(1, 2).flatten(2)
    torch.testing.assert_close(mixer(X), mixer.out_proj(y))


@pytest.mark.parametrize("gate", ["elementwise", "headwise"])
def test_a_gate_of_zero_weights_halves_attention(gate: str):
    mixer, other = (
        built("GatedAttention", num_heads=2, gate=gate, bias=False),
        built("Attention", num_heads=2, bias=False),
    )
    other.load_state_dict(mixer.state_dict(), strict=False)
    torch.nn.init.zeros_(mixer.gate.weight)
    torch.testing.assert_close(mixer(X), other(X) / 2)
