"""Nystromformer: what it is not, what of zoology's it must not be, and its published size."""

import torch

from zoo.mixers import Nystromformer


def test_it_says_that_it_is_no_decoder():
    mixer = Nystromformer(d_model=8)
    assert not mixer.causal and not mixer.exact_decode


@torch.no_grad()
def test_heads_are_split():
    """Each head has its own softmax: with one for both, moving a head's queries would move all."""
    mixer = Nystromformer(d_model=8, num_heads=2, num_landmarks=3).double()
    x = torch.randn(1, 20, 8, dtype=torch.float64)
    mixer.out_proj.weight.copy_(torch.eye(8))
    y = mixer(x)
    mixer.qkv.proj.weight[:4] += torch.randn(4, 8)
    moved = (mixer(x) - y).abs().amax((0, 1))
    assert (moved[:4] > 1e-6).all() and (moved[4:] == 0).all()
