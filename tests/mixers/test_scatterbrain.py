"""ScatterBrain's one denominator, its published size, and its numerics; its definition: tests/definitions."""

import pytest
import torch

from zoo.mixers import ScatterBrain


@torch.no_grad()
@pytest.mark.parametrize("scale", [1, 30])
def test_weights_sum_to_one(scale: float):
    """Equal values come out as they are.  Two softmaxes, each by itself, would give twice that (zoology)."""
    mixer = ScatterBrain(d_model=8, num_heads=2, window=4, num_features=6).double()
    x = torch.randn(2, 300, 8).double()
    mixer.qkv.proj.weight[:16] *= scale
    mixer.out_proj.weight.copy_(torch.eye(8))
    q_k_v = mixer.qkv.forward
    mixer.qkv.forward = lambda *given, **named: (
        *q_k_v(*given, **named)[:2],
        torch.ones(2, 2, x.shape[1], 4).double(),
    )
    y, state = mixer.extend(x)
    torch.testing.assert_close(y, torch.ones_like(y))
    torch.testing.assert_close(mixer.extend(x, state)[0], torch.ones_like(y))


def test_features_that_vanish_leave_the_window_alone():
    """Keys far out have features of zero in float32: no weight, no NaN, rows that still sum to one."""
    mixer, x = ScatterBrain(d_model=8, num_heads=1, window=3, num_features=4), 1000 * torch.randn(1, 60, 8)
    x.requires_grad_()
    y = mixer(x)
    y.square().mean().backward()
    assert y.isfinite().all() and x.grad.isfinite().all()
    assert (y[0, 10:].abs().amax(-1) > 1).all()
