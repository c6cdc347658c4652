"""Raven: which slots a token writes; its definition: tests/definitions."""

import torch

from zoo.mixers import Raven

X = torch.randn(2, 30, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_a_slot_that_was_not_chosen_stays_as_it_is_bit_for_bit():
    mixer = Raven(d_model=8, num_heads=2, num_slots=6, num_chosen=2).double()
    for before in (mixer.extend(X[:, :20])[1], mixer.extend(X[:, :7])[1]):
        _, after = mixer.extend(X[:, 20:21], before)
        changed = (after.keys != before.keys).any(-1)
        assert torch.equal(changed, (after.values != before.values).any(-1))
        assert (changed.sum(-1) == 2).all()


def test_ties_go_to_the_lowest_slot():
    mixer = Raven(d_model=8, num_heads=1, num_slots=6, num_chosen=2).double()
    torch.nn.init.zeros_(mixer.keep.weight)
    assert ((mixer._log_decay(X) < 0) == torch.tensor([True, True, False, False, False, False])).all()
