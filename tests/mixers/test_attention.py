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
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_long_sequence_in_bands_equals_its_parts(settings: dict):
    mixer = SlidingWindow(d_model=16, window=6, **settings).double()
    x = torch.randn(1, 333, 16, dtype=torch.float64)
    parts, state = [], None
    for piece in x.split([150, 1, 140, 42], dim=1):
        y, state = mixer.extend(piece, state)
        parts.append(y)
    torch.testing.assert_close(torch.cat(parts, dim=1), mixer(x))


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


@pytest.mark.parametrize("window", [None, 8])
def test_stays_finite_far_out(window: int | None):
    mixer = Attention(d_model=16) if window is None else SlidingWindow(d_model=16, num_heads=1, window=window)
    x = (100 * torch.randn(1, 1024, 16)).requires_grad_()
    y = mixer(x)
    y.sum().backward()
    assert y.isfinite().all()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"num_heads": 3}, "d_model"),
        ({"num_heads": 4, "num_kv_heads": 3}, "num_heads"),
        ({"position": "learned"}, "position"),
        ({"num_heads": 16, "position": "rope"}, "rope_fraction"),
    ],
)
def test_refuses_settings_that_do_not_fit(settings: dict, named: str):
    with pytest.raises(ValueError, match=named):
        Attention(d_model=16, **settings)
    with pytest.raises(ValueError, match=named):
        SlidingWindow(d_model=16, **({"num_heads": 1, "window": 4} | settings))


def test_refuses_a_window_without_the_token_itself():
    with pytest.raises(ValueError, match="window"):
        SlidingWindow(d_model=16, num_heads=1, window=0)


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
