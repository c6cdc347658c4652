"""What attention and its sliding window have in common, keep and refuse; definitions: tests/definitions."""

import pytest
import torch

from zoo.kernels.choice import kernels
from zoo.mixers import Attention, SlidingWindow
from zoo.state import StateSize

SETTINGS = [
    {"num_heads": 1},
    {"num_heads": 4, "num_kv_heads": 2, "position": "rope", "rope_base": 50.0},
    {"num_heads": 2, "num_kv_heads": 1, "position": "rope", "rope_fraction": 0.5, "bias": False},
    {"num_heads": 4, "num_kv_heads": 1, "position": "alibi"},
]


@torch.no_grad()
@pytest.mark.parametrize("position", ["none", "rope", "alibi"])
def test_weights_sum_to_one(position: str):
    """Equal values everywhere come out as they are, whatever the weights."""
    mixer = SlidingWindow(d_model=8, num_heads=2, window=3, position=position)
    mixer.qkv.proj.weight[16:] = 0
    mixer.qkv.proj.bias[16:] = 1
    mixer.out_proj.weight.copy_(torch.eye(8))
    mixer.out_proj.bias.zero_()
    torch.testing.assert_close(mixer(torch.randn(2, 200, 8)), torch.ones(2, 200, 8))


def test_a_window_as_long_as_the_sequence_is_attention():
    whole = Attention(d_model=16, num_heads=2).double()
    window = SlidingWindow(d_model=16, num_heads=2, window=20).double()
    window.load_state_dict(whole.state_dict())
    x = torch.randn(2, 20, 16, dtype=torch.float64)
    torch.testing.assert_close(window(x), whole(x))


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
    with pytest.raises(ValueError, match=r"dropout \(=1\.0\) must be at least 0 and below 1"):
        Attention(d_model=8, dropout=1.0)
