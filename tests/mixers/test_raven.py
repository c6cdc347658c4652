"""Raven: which slots a token writes, and the window that it contains."""

import torch
import torch.nn.functional as F

from zoo.mixers import Raven

X = torch.randn(2, 30, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_a_slot_that_was_not_chosen_stays_as_it_is_bit_for_bit():
    mixer = Raven(d_model=8, num_heads=2, num_slots=6, num_chosen=2).double()
    for before in (mixer.extend(X[:, :20])[1], mixer.extend(X[:, :7])[1]):
        _, after = mixer.extend(X[:, 20:21], before)
        changed = (after.keys != before.keys).any(-1)
        assert torch.equal(changed, (after.values != before.values).any(-1))
        assert (changed.sum(-1) == 2).all()


def test_slots_in_turn_that_forget_at_once_are_a_window():
    mixer = Raven(d_model=8, num_heads=2, num_slots=5).double()
    turns = F.one_hot(torch.arange(30) % 5, 5).double()
    mixer._log_decay = lambda x: -1e4 * turns[: x.shape[1]].expand(2, 2, -1, -1)  # pyright: ignore
    q, k, v = mixer._activated(X)
    logits = (q @ k.mT).masked_fill(
        torch.ones(30, 30, dtype=torch.bool).tril().triu(-4).logical_not(), -torch.inf
    )
    y = mixer.norm(F.silu((logits.softmax(-1) @ v).transpose(1, 2).flatten(2)))
    torch.testing.assert_close(mixer(X)[:, 4:], mixer.out_proj(y)[:, 4:])


def test_ties_go_to_the_lowest_slot():
    mixer = Raven(d_model=8, num_heads=1, num_slots=6, num_chosen=2).double()
    torch.nn.init.zeros_(mixer.keep.weight)
    assert ((mixer._log_decay(X) < 0) == torch.tensor([True, True, False, False, False, False])).all()
