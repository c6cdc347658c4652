"""Stick-breaking attention: weights that sum to one, and chunks; its definition: tests/definitions."""

import torch

from zoo.mixers.stickbreaking_attention import break_sticks

F64 = torch.float64


def test_weights_sum_to_one():
    q, k = 3 * torch.randn(2, 2, 1, 50, 4, dtype=F64)
    ones = torch.ones(2, 1, 50, 4, dtype=F64)
    torch.testing.assert_close(break_sticks(q, k, ones), ones)


def test_the_newest_of_equal_keys_has_the_most():
    q, k, v = torch.zeros(1, 1, 4, 2, dtype=F64), torch.zeros(1, 1, 4, 2, dtype=F64), torch.eye(4, dtype=F64)
    weights = break_sticks(q, k, v[None, None])[0, 0, 3]
    torch.testing.assert_close(weights, torch.tensor([0.125, 0.25, 0.5, 0.125], dtype=F64))
