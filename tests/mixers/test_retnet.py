"""Retention's decays, initial values, sizes and numerics; its definition: tests/definitions."""

import pytest
import torch

from zoo.mixers import RetNet


def test_a_head_forgets_at_its_published_rate():
    """Half-lives of 22 tokens for the first head, twice that for each next one."""
    mixer, x = RetNet(d_model=32, num_heads=4).double(), torch.randn(1, 1, 32, dtype=torch.float64)
    _, state = mixer.extend(x)
    _, later = mixer.extend(torch.zeros(1, 10, 32, dtype=torch.float64), state)
    kept = (later.kv / state.kv).mean((0, 2, 3))
    torch.testing.assert_close(kept, torch.tensor([31 / 32, 63 / 64, 127 / 128, 255 / 256]).double() ** 10)


def test_initial_values_are_the_authors():
    torch.manual_seed(3)
    mixer = RetNet(d_model=64, num_heads=2)
    for proj, fan in ((mixer.q, 128), (mixer.k, 128), (mixer.v, 192), (mixer.gate, 192)):
        assert proj.weight.std().item() == pytest.approx(2**-2.5 * (2 / fan) ** 0.5, rel=0.05)
    assert mixer.out_proj.weight.std().item() == pytest.approx((2 / 192) ** 0.5, rel=0.05)
