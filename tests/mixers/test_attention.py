"""What attention and its sliding window keep and refuse; definitions: tests/definitions."""

import torch

from zoo.kernels.choice import kernels
from zoo.mixers import Attention, SlidingWindow
from zoo.state import StateSize


def test_shared_heads_keep_less():
    assert Attention(d_model=16, num_heads=4, num_kv_heads=1).state_size(10) == StateSize(320, 80, 80)
    kept = 2 * 4 * 6
    assert SlidingWindow(d_model=16, num_heads=4, window=7, num_kv_heads=1).state_size(10) == StateSize(
        224, kept, kept
    )


def test_dropout_is_for_training_and_leaves_whole_weights_out():
    mixer = Attention(d_model=8, dropout=0.5).double()
    with torch.no_grad():
        mixer.qkv.proj.weight.zero_()
        mixer.qkv.proj.bias.copy_(torch.ones(24))
        mixer.out_proj.weight.copy_(torch.eye(8))
        mixer.out_proj.bias.zero_()
    x = torch.zeros(4, 50, 8, dtype=torch.float64)
    with kernels("auto") as choice:
        y = mixer(x)  # token t: the sum of what is left of t + 1 equal weights, each doubled
        left = (y[..., 0] * torch.arange(1, 51) / 2).sum() / (4 * 50 * 51 / 2)
        assert choice.record() == {"attention": "reference"}
        torch.testing.assert_close(mixer.eval()(x), torch.ones_like(x))
        assert choice.record() == {"attention": "reference+sdpa"}
    assert 0.45 < left < 0.55
