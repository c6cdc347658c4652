"""LaCT: what it is before its first update, and what its public code loses."""

import torch

from zoo.mixers import LaCT

X = torch.randn(2, 30, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def built(**settings: object) -> LaCT:
    torch.manual_seed(0)
    return LaCT(d_model=16, **settings).double()


def test_in_its_first_chunk_or_without_rates_it_is_a_learned_mlp_beside_a_window():
    whole, still, moving = built(chunk_size=31), built(chunk_size=4), built(chunk_size=4)
    still.rates.bias.data.fill_(-1e4)
    torch.testing.assert_close(whole(X), still(X))
    assert (whole(X) - moving(X))[:, 4:].abs().max() > 0.01
    torch.testing.assert_close(whole(X)[:, :4], moving(X)[:, :4])


def test_a_state_without_its_fast_weights_would_go_on_wrong():
    """The public layer caches the window alone, so that they start again in every call."""
    mixer = built(chunk_size=4)
    _, state = mixer.extend(X[:, :18])
    for lost in ({"model": None}, {"sums": 0 * state.sums}, {"momentum": 0 * state.momentum}):
        other = mixer.extend(X[:, 18:], state._replace(**lost))[0]
        assert (other - mixer(X)[:, 18:]).abs().max() > 1e-3, lost


def test_an_update_turns_the_weights_of_a_unit_and_leaves_their_length():
    mixer = built(chunk_size=4)
    model = mixer.extend(X)[1].model
    for moved, learned in zip(mixer._unpacked(model), mixer.inner, strict=True):
        torch.testing.assert_close(moved.norm(dim=-2), learned.norm(dim=-2).expand(2, -1, -1))
        assert (moved - learned).abs().max() > 0.1
