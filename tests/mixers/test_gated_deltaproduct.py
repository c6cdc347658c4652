"""Gated DeltaProduct: one step is Gated DeltaNet, and the tails of all keys and values count."""

import pytest
import torch

from zoo.mixers import GatedDeltaNet, GatedDeltaProduct


def test_one_step_is_gated_deltanet():
    settings = {"d_model": 8, "num_heads": 2, "allow_neg_eigval": True}
    one, gated = GatedDeltaProduct(num_householder=1, **settings).double(), GatedDeltaNet(**settings).double()
    gated.load_state_dict(one.state_dict())
    x = torch.randn(2, 37, 8, dtype=torch.float64)
    torch.testing.assert_close(one(x), gated(x), rtol=1e-12, atol=1e-12)


def test_two_steps_with_beta_2_rotate_the_memory():
    """Two reflections: every answer of the old memory keeps its length, and the product is no reflection."""
    mixer = GatedDeltaProduct(
        d_model=8, num_heads=1, num_householder=2, expand_v=1, kernel_size=1, forget_gate=False
    )
    mixer = mixer.double()
    with torch.no_grad():
        mixer.beta.weight.fill_(1e3)
        mixer.qkv.proj.weight[-16:] = 0  # values of 0: nothing is written
        _, state = mixer.extend(torch.rand(1, 1, 8, dtype=torch.float64))
        old = torch.eye(8, dtype=torch.float64)[None, None]
        _, new = mixer.extend(torch.rand(1, 1, 8, dtype=torch.float64), state._replace(memory=old))
    turn = new.memory[0, 0]
    torch.testing.assert_close(turn @ turn.T, torch.eye(8, dtype=torch.float64), rtol=1e-3, atol=1e-3)
    assert torch.linalg.det(turn).item() == pytest.approx(1, rel=1e-3)
    assert (turn - turn.T).abs().max() > 0.1
