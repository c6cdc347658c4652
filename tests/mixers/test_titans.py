"""What public code of Titans gets wrong; its definition: tests/definitions."""

import torch

from zoo.mixers import TitansLinear
from zoo.mixers.base import Mixer
from zoo.mixers.delta_heads import unit

X = torch.randn(2, 30, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
FORGET, KEEP, RATE = (slice(2 * i, 2 * i + 2) for i in range(3))


def without(mixer: Mixer, rows: slice) -> None:
    with torch.no_grad():
        mixer.rates.weight[rows], mixer.rates.bias[rows] = 0, -1e4


def test_a_later_chunk_takes_its_gradients_at_what_was_learned():
    """titans-pytorch's default takes all at the first weights: nothing learned is corrected."""
    mixer = TitansLinear(d_model=16, num_heads=1, chunk_size=4).double()
    same = X[:1, :1].expand(1, 400, 16)  # one key and value, again and again: the memory comes to hold them
    without(mixer, slice(0, 2))  # neither forgetting nor momentum
    _, k, v = mixer.qkv(same[:, 0]).chunk(3, dim=-1)
    held = unit(k) @ mixer.extend(same)[1].model.unflatten(-1, (16, 16))[0, 0]
    torch.testing.assert_close(held, v, rtol=1e-3, atol=1e-3)


def test_a_state_without_its_momentum_would_go_on_wrong():
    """fla's naive form does not return it."""
    mixer = TitansLinear(d_model=16, num_heads=2, chunk_size=4).double()
    _, state = mixer.extend(X[:, :18])
    lost = state._replace(momentum=torch.zeros_like(state.momentum))
    assert not torch.allclose(mixer.extend(X[:, 18:], lost)[0], mixer(X)[:, 18:], rtol=1e-3)
