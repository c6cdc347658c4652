"""Attention and its sliding window against their definitions, one token and one head at a time."""

import math

import pytest
import torch
from torch import Tensor

from zoo.mixers.attention import Attention
from zoo.mixers.positions import alibi_slopes, rotate
from zoo.mixers.projections import QueryKeyValue
from zoo.mixers.sliding_window import SlidingWindow
from zoo.state import StateSize

SETTINGS = [
    {"num_heads": 1},
    {"num_heads": 4, "num_kv_heads": 2, "position": "rope", "rope_base": 50.0},
    {"num_heads": 2, "num_kv_heads": 1, "position": "rope", "rope_fraction": 0.5, "bias": False},
    {"num_heads": 4, "num_kv_heads": 1, "position": "alibi"},
]


def written_out(mixer: Attention | SlidingWindow, x: Tensor, window: int) -> Tensor:
    """Every softmax by itself, from the definition."""
    qkv = mixer.qkv
    heads, groups, size = qkv.num_heads, qkv.num_kv_heads, qkv.head_dim
    q, k, v = qkv.proj(x).split([heads * size, groups * size, groups * size], dim=-1)
    rows = []
    for t in range(x.shape[1]):
        row = []
        for h in range(heads):
            g = h * groups // heads
            past = range(max(0, t - window + 1), t + 1)
            logits = torch.stack([logit(qkv, q[:, t], k[:, s], h, g, t, s) for s in past], dim=-1)
            weights = logits.softmax(-1)
            row.append(
                sum(weights[:, i, None] * v[:, s, g * size : (g + 1) * size] for i, s in enumerate(past))
            )
        rows.append(torch.cat(row, dim=-1))
    return mixer.out_proj(torch.stack(rows, dim=1))


def logit(qkv: QueryKeyValue, q: Tensor, k: Tensor, h: int, g: int, t: int, s: int) -> Tensor:
    size = qkv.head_dim
    q, k = q[:, h * size : (h + 1) * size], k[:, g * size : (g + 1) * size]
    if qkv.position == "rope":
        turn = {"base": qkv.rope_base, "fraction": qkv.rope_fraction}
        q, k = rotate(q[:, None, None], t, **turn)[:, 0, 0], rotate(k[:, None, None], s, **turn)[:, 0, 0]
    bias = alibi_slopes(qkv.num_heads)[h].item() * (t - s) if qkv.position == "alibi" else 0.0
    return (q * k).sum(-1) / math.sqrt(size) - bias


def assert_same_with_gradients(mixer, x: Tensor, window: int) -> None:
    wanted = [x, *mixer.parameters()]
    y, expected = mixer(x), written_out(mixer, x, window)
    torch.testing.assert_close(y, expected)
    upstream = torch.randn_like(y)
    torch.testing.assert_close(
        torch.autograd.grad(y, wanted, upstream), torch.autograd.grad(expected, wanted, upstream)
    )


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_attention_is_its_definition(settings: dict):
    mixer = Attention(16, **settings).double()
    assert_same_with_gradients(mixer, torch.randn(2, 9, 16, dtype=torch.float64, requires_grad=True), 9)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("window", [1, 4])
def test_sliding_window_is_its_definition(settings: dict, window: int):
    mixer = SlidingWindow(16, window=window, **settings).double()
    assert_same_with_gradients(mixer, torch.randn(2, 9, 16, dtype=torch.float64, requires_grad=True), window)


@torch.no_grad()
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_long_sequence_in_bands_equals_its_parts(settings: dict):
    mixer = SlidingWindow(16, window=6, **settings).double()
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
    mixer = SlidingWindow(8, num_heads=2, window=3, position=position)
    mixer.qkv.proj.weight[16:] = 0
    mixer.qkv.proj.bias[16:] = 1
    mixer.out_proj.weight.copy_(torch.eye(8))
    mixer.out_proj.bias.zero_()
    torch.testing.assert_close(mixer(torch.randn(2, 200, 8)), torch.ones(2, 200, 8))


def test_a_window_as_long_as_the_sequence_is_attention():
    whole = Attention(16, num_heads=2).double()
    window = SlidingWindow(16, num_heads=2, window=20).double()
    window.load_state_dict(whole.state_dict())
    x = torch.randn(2, 20, 16, dtype=torch.float64)
    torch.testing.assert_close(window(x), whole(x))


def test_shared_heads_keep_less():
    assert Attention(16, num_heads=4, num_kv_heads=1).state_size(10) == StateSize(320, 80, 80)
    kept = 2 * 4 * 6
    assert SlidingWindow(16, 4, window=7, num_kv_heads=1).state_size(10) == StateSize(224, kept, kept)


@pytest.mark.parametrize("window", [None, 8])
def test_stays_finite_far_out(window: int | None):
    mixer = Attention(16) if window is None else SlidingWindow(16, 1, window)
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
        Attention(16, **settings)
    with pytest.raises(ValueError, match=named):
        SlidingWindow(16, **({"num_heads": 1, "window": 4} | settings))


def test_refuses_a_window_without_the_token_itself():
    with pytest.raises(ValueError, match="window"):
        SlidingWindow(16, 1, window=0)
