"""Gated DeltaNet: what it holds, and its initial decays."""

import math

import pytest
import torch
import torch.nn.functional as F

from zoo.mixers import GatedDeltaNet


def test_initial_decays_are_the_published_ones():
    """A uniform on (0, 16), step sizes log-uniform on (0.001, 0.1), neither drawn to 0 by weight decay."""
    torch.manual_seed(0)
    mixer = GatedDeltaNet(d_model=4096, num_heads=2048)
    A, dt = mixer.forget.A_log.exp(), F.softplus(mixer.forget.dt_bias)
    assert A.mean().item() == pytest.approx(8, rel=0.05)
    assert A.std().item() == pytest.approx(16 / math.sqrt(12), rel=0.05)
    assert (A.min() > 0) & (A.max() <= 16)
    assert 0.999e-3 < dt.min() < 1.1e-3
    assert 0.09 < dt.max() < 0.1001
    assert dt.log().mean().item() == pytest.approx(math.log(1e-2), rel=0.03)


def test_the_old_memory_decays_before_it_is_corrected():
    """With beta = 1 nothing of the old answer to this key is left, decayed or not."""
    mixer = GatedDeltaNet(d_model=8, num_heads=1, kernel_size=1).double()
    torch.nn.init.constant_(mixer.beta.weight, 1e3)
    x = torch.rand(1, 1, 8, dtype=torch.float64)
    _, state = mixer.extend(x)
    _, new = mixer.extend(x, state._replace(memory=torch.randn_like(state.memory)))
    (_, k, v), _ = mixer.qkv(x, None)
    answer = new.memory[0, 0].mT @ F.normalize(k[0, 0, 0], dim=-1)
    torch.testing.assert_close(answer, v[0, 0, 0], rtol=1e-3, atol=1e-4)
