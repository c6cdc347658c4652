"""Titans: the delta rule that it contains, and what public code gets wrong."""

import pytest
import torch

from zoo.kernels.dplr_delta_rule import dplr_delta_rule
from zoo.mixers import Moneta, TitansLinear, TitansMLP, Yaad
from zoo.mixers.base import Mixer
from zoo.mixers.delta_heads import unit

X = torch.randn(2, 30, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
FORGET, KEEP, RATE = (slice(2 * i, 2 * i + 2) for i in range(3))


def without(mixer: Mixer, rows: slice) -> None:
    with torch.no_grad():
        mixer.rates.weight[rows], mixer.rates.bias[rows] = 0, -1e4


def test_a_matrix_without_momentum_is_a_delta_rule():
    mixer = TitansLinear(d_model=16, num_heads=2, chunk_size=1).double()
    without(mixer, KEEP)
    q, k, v = mixer.qkv(X).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
    q, k = unit(q), unit(k)
    forget, _, rate = mixer.rates(X).sigmoid().mT[..., None].chunk(3, dim=1)
    written = 2 * rate * k
    y, _ = dplr_delta_rule(q, written, v, k, -written, (1 - forget).log().expand_as(k))
    torch.testing.assert_close(mixer(X), mixer.output(y, X))


def test_without_a_rate_the_first_model_fades():
    mixer = TitansMLP(d_model=16, num_heads=2, chunk_size=4).double()
    torch.nn.init.normal_(mixer.inner[1])
    without(mixer, RATE)
    left = (1 - mixer.rates(X)[..., :2].sigmoid()).prod(1)
    learned = torch.cat([w.flatten(1) for w in mixer.inner], dim=-1)
    torch.testing.assert_close(mixer.extend(X)[1].model, left[..., None] * learned)


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


def likened(mixer: Mixer, other: Mixer) -> tuple[torch.Tensor, torch.Tensor]:
    """Both outputs, with the weights of the first."""
    mixer, other = mixer.double(), other.double()
    other.load_state_dict(mixer.state_dict())
    return mixer(3 * X), other(3 * X)


@pytest.mark.parametrize("expand", [0, 2])
def test_a_huber_loss_that_never_bends_and_a_power_of_two_are_titans(expand: int):
    titans = TitansMLP(d_model=16, expand=expand)
    torch.testing.assert_close(*likened(titans, Yaad(d_model=16, expand=expand, delta=1e9)))
    torch.testing.assert_close(*likened(titans, Moneta(d_model=16, expand=expand, power=2.0)))
    for other in (Yaad(d_model=16, expand=expand, delta=0.1), Moneta(d_model=16, expand=expand)):
        assert not torch.allclose(*likened(titans, other), rtol=1e-3)


def test_a_power_near_two_is_nearly_titans():
    torch.testing.assert_close(*likened(TitansMLP(d_model=16), Moneta(d_model=16, power=2 + 1e-9)))


def test_yaads_step_grows_with_the_error_to_delta_and_no_further():
    """Along sign(e) times delta, as its rule is printed, it would jump there by the root of the channels."""
    mixer = Yaad(d_model=16, delta=0.5).double()
    error = torch.nn.functional.normalize(X[:, None, :, :8], dim=-1)
    lengths = [mixer._slope(scale * error).norm(dim=-1) for scale in (0.25, 0.4999, 0.5001, 100)]
    for length, wanted in zip(lengths, (0.5, 1, 1, 1), strict=True):
        torch.testing.assert_close(length, torch.full_like(length, wanted), rtol=1e-3, atol=0)
