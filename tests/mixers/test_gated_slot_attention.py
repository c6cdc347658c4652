"""Gated slot attention's sizes and numerics; its definition: tests/definitions."""

import torch

from zoo.mixers import GatedSlotAttention


def test_gates_that_write_little_still_learn():
    """1 - a of a gate near 1 is taken as expm1: a difference is 0 in float32, and so is its gradient."""
    mixer, x = GatedSlotAttention(d_model=8, num_heads=1), torch.ones(1, 3, 8)
    torch.nn.init.constant_(mixer.keep.weight, 20 / 8)
    _, state = mixer.extend(x)
    assert (state.values != 0).all()
    state.values.sum().backward()
    assert (mixer.keep.weight.grad != 0).all()
