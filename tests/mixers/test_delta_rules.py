"""Delta rules, Titans and LaCT: signs of their writes and faults of public code; limits: test_limits.py."""

from inspect import signature

import pytest
import torch

from tests.mixers.built import X, built
from zoo import mixers
from zoo.mixers import TitansLinear, Yaad
from zoo.mixers.base import Mixer
from zoo.mixers.delta_heads import unit
from zoo.mixers.named import stems

MAY_TURN = [name for name in stems() if "allow_neg_eigval" in signature(getattr(mixers, name)).parameters]


@pytest.mark.parametrize("name", MAY_TURN)
def test_a_write_turns_an_old_answer_around_only_where_it_may(name: str):
    """The definitions read this factor of beta off the mixer."""
    assert built(name, num_heads=2, allow_neg_eigval=False).most == 1.0
    assert built(name, num_heads=2, allow_neg_eigval=True).most == 2.0


def test_the_error_of_a_token_pairs_its_own_e_with_earlier_keys():
    """Q-Delta's public chunks pair e_j with k_i: what two tokens leave then depends on the chunk's size."""
    mixer = built("QDelta", num_heads=2, kernel_size=1)
    (q, k, v), _ = mixer.qkv(X[:1, :2], None)
    q, k = (part / (part.square().sum(-1, keepdim=True) + 1e-6).sqrt() for part in (q, k))
    share = torch.sigmoid(mixer.share(X[:1, :2]) - 0.9).mT
    beta, alpha = mixer.beta(X[:1, :2]).sigmoid().mT, mixer.forget(X[:1, :2]).exp()
    e = k[:, :, 1] + share[:, :, 1, None] * q[:, :, 1]
    first = beta[:, :, 0, None] * v[:, :, 0]
    read = alpha[:, :, 1, None] * (e * k[:, :, 0]).sum(-1, keepdim=True) * first
    second = beta[:, :, 1, None] * (v[:, :, 1] - read)
    first_write = alpha[:, :, 1, None, None] * k[:, :, 0, :, None] * first[:, :, None]
    _, state = mixer.extend(X[:1, :2])
    torch.testing.assert_close(state.memory, first_write + k[:, :, 1, :, None] * second[:, :, None])


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
    mixer = built("TitansLinear", num_heads=2, chunk_size=4)
    _, state = mixer.extend(X[:, :18])
    lost = state._replace(momentum=torch.zeros_like(state.momentum))
    assert not torch.allclose(mixer.extend(X[:, 18:], lost)[0], mixer(X)[:, 18:], rtol=1e-3)


def test_a_state_without_its_fast_weights_would_go_on_wrong():
    """The public layer caches the window alone, so that they start again in every call."""
    mixer = built("LaCT", num_heads=2, chunk_size=4)
    _, state = mixer.extend(X[:, :18])
    for lost in ({"model": None}, {"sums": 0 * state.sums}, {"momentum": 0 * state.momentum}):
        other = mixer.extend(X[:, 18:], state._replace(**lost))[0]
        assert (other - mixer(X)[:, 18:]).abs().max() > 1e-3, lost


def test_yaads_step_grows_with_the_error_to_delta_and_no_further():
    """Along sign(e) times delta, as its rule is printed, it would jump there by the root of the channels."""
    mixer = Yaad(d_model=16, delta=0.5).double()
    error = torch.nn.functional.normalize(X[:, None, :, :8], dim=-1)
    lengths = [mixer._slope(scale * error).norm(dim=-1) for scale in (0.25, 0.4999, 0.5001, 100)]
    for length, wanted in zip(lengths, (0.5, 1, 1, 1), strict=True):
        torch.testing.assert_close(length, torch.full_like(length, wanted), rtol=1e-3, atol=0)
