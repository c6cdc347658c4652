"""Nystromformer: what it is not, and what of zoology's it must not be; its definition: tests/definitions."""

import torch

from zoo.mixers import Nystromformer
from zoo.mixers.nystromformer import pseudo_inverse, segment_means
from zoo.state import StateSize


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


def test_the_pseudo_inverse_is_one():
    a = torch.randn(3, 2, 6, 6, dtype=torch.float64).softmax(-1)
    torch.testing.assert_close(pseudo_inverse(a, 30), torch.linalg.pinv(a), rtol=1e-6, atol=1e-8)


def test_the_pseudo_inverse_of_a_matrix_does_not_depend_on_the_others():
    """The published code divides by the largest norm of all heads and sequences in the batch."""
    a = torch.randn(3, 2, 6, 6, dtype=torch.float64).softmax(-1)
    torch.testing.assert_close(pseudo_inverse(a, 6)[1], pseudo_inverse(a[1:2], 6)[0], rtol=1e-12, atol=0)


def test_segments_cover_the_sequence_and_differ_by_a_token_at_most():
    means = segment_means(11, 4)
    assert [(row > 0).sum().item() for row in means] == [3, 3, 3, 2]
    torch.testing.assert_close(means.sum(1), torch.ones(4).double())
    assert ((means > 0).sum(0) == 1).all()


def test_state_counts():
    assert Nystromformer(d_model=128, num_heads=1, num_landmarks=16).state_size(1024) == StateSize(
        4096, 131072, 131072
    )
