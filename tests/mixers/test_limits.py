"""Mistakes of public code in mixers that have no other test of their own; definitions: tests/definitions."""

import torch

from zoo import mixers

X = torch.randn(2, 30, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def built(name: str, **settings: object):
    torch.manual_seed(0)
    return getattr(mixers, name)(d_model=16, **settings).double()


def test_slots_without_their_weights_would_go_on_wrong():
    """fla drops them between two calls."""
    mixer = built("BoundedMemoryAttention", num_heads=2)
    _, state = mixer.extend(X[:, :15])
    forgotten = mixer.extend(X[:, 15:], state._replace(log_z=torch.full_like(state.log_z, -torch.inf)))[0]
    assert (forgotten - mixer(X)[:, 15:]).abs().max() > 0.1


def test_a_minlstm_goes_on_from_h_itself():
    """The public one resumes from log g(h), another number."""
    mixer = built("MinLSTM")
    _, state = mixer.extend(X[:, :15])
    torch.testing.assert_close(mixer.extend(X[:, 15:], state)[0], mixer(X)[:, 15:])
    other = state._replace(h=torch.where(state.h >= 0, state.h + 0.5, state.h.sigmoid()))
    assert not torch.allclose(mixer.extend(X[:, 15:], other)[0], mixer(X)[:, 15:])


def test_a_row_begins_by_itself_whatever_the_others_did():
    """The public sLSTM asks of the whole batch whether this is the first step."""
    mixer = built("SLSTM", num_heads=2)
    _, state = mixer.extend(X)
    zero = [part.clone() for part in state[:4]]
    for part, first in zip(zero, (0.0, 0.0, 0.0, -torch.inf), strict=True):
        part[0] = first
    tail = state.tail.clone()
    tail[0] = 0
    y, _ = mixer.extend(X, type(state)(*zero, tail))
    torch.testing.assert_close(y[0], mixer(X)[0])
    torch.testing.assert_close(y[1], mixer.extend(X, state)[0][1])


def test_what_was_evicted_is_never_seen_again_and_rows_choose_for_themselves():
    """H2O's code hides a token, shows it again later, and adds the scores of all rows."""
    mixer = built("H2O", num_heads=2, budget=6, recent=2)
    q, k, _ = mixer.qkv(4 * X)
    seen, _, _ = mixer._evict(q, k, None)
    age = torch.ones(30, 30).tril().bool()
    assert not ((seen[:, :, 1:] & ~seen[:, :, :-1]) & age[:-1]).any()
    assert (seen.sum(-1) == torch.arange(1, 31).clamp(max=7)).all()
    assert not torch.equal(seen[0], seen[1])
