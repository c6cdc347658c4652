"""Run by test_interpreted.py: the decoding step in Triton's interpreter, in float32, against float64."""

import pytest
import torch
from torch import Tensor

from tests.kernels.agreement import as_near_as_torch, gradients_inside_vmap, members_as_alone
from zoo.kernels.attention import attention_reference
from zoo.kernels.choice import kernels
from zoo.kernels.window_decode import window_decode
from zoo.kernels.window_decode.triton import window_decode_triton
from zoo.mixers.positions import alibi_slopes

CASES = [  # B, H, G, S, C, window
    (1, 1, 1, 1, 4, 1),
    (2, 4, 2, 9, 5, 7),
    (1, 2, 2, 300, 16, None),
    (2, 6, 1, 20, 24, 30),
    (1, 16, 2, 131, 33, 130),
]


def draw(batch: int, heads: int, groups: int, num_keys: int, channels: int) -> list[Tensor]:
    """q, k and v as a mixer has them: heads side by side in memory."""
    rng = torch.Generator().manual_seed(num_keys)
    q = torch.randn(batch, 1, heads, channels, generator=rng)
    k, v = torch.randn(2, batch, num_keys, groups, channels, generator=rng)
    return [x.transpose(1, 2).detach().requires_grad_() for x in (q, k, v)]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_outputs_and_gradients(case: tuple, biased: bool):
    *sizes, window = case
    slopes = alibi_slopes(sizes[1]).requires_grad_() if biased else None
    as_near_as_torch(window_decode_triton, attention_reference, [*draw(*sizes), window, slopes])


def test_logits_far_from_zero():
    """Beside a running maximum that is wrong, they would overflow or vanish."""
    q, k, v = draw(1, 1, 1, 400, 8)
    as_near_as_torch(window_decode_triton, attention_reference, [q.detach() * 200, k.detach(), v, None, None])


@pytest.mark.parametrize("dim_of_slopes", [None, 0])
def test_stacked_members_are_more_of_the_batch(dim_of_slopes: int | None):
    inputs = [*draw(2, 2, 1, 9, 4), 5, alibi_slopes(2)]
    members_as_alone(window_decode_triton, inputs, (0, 0, 0, None, dim_of_slopes))


def test_stacked_members_without_slopes():
    members_as_alone(window_decode_triton, [*draw(2, 2, 1, 9, 4), 5, None], (0, None, 2, None, None))


def test_gradients_inside_vmap():
    gradients_inside_vmap(window_decode_triton, [*draw(1, 2, 1, 9, 4), 5])


@pytest.mark.parametrize("position", ["none", "rope", "alibi"])
def test_a_sliding_window_decodes_with_it(position: str):
    """A sequence at once in torch, then token by token, from one that is shorter than the window on."""
    from zoo.mixers.sliding_window import SlidingWindow

    mixer = SlidingWindow(16, num_heads=4, window=6, num_kv_heads=2, position=position)
    x = torch.randn(2, 12, 16)
    with torch.no_grad(), kernels("triton") as choice:
        y, state = mixer.extend(x[:, :3])
        parts = [y]
        for t in range(3, 12):
            y, state = mixer.extend(x[:, t : t + 1], state)
            parts.append(y)
        torch.testing.assert_close(torch.cat(parts, 1), mixer(x), rtol=1e-4, atol=1e-5)
    assert choice.record() == {"attention": "sdpa", "window_decode": "triton"}


@pytest.mark.parametrize(
    ("q", "says"),
    [
        (torch.zeros(1, 2, 3, 4), "one query at a time, and there are 3"),
        (torch.zeros(1, 2, 1, 4).double(), "float64"),
        (torch.zeros(1, 2, 1, 300), r"head_dim \(=300\) must be at most 256"),
        (torch.zeros(1, 3, 1, 4), "num_heads"),
    ],
)
def test_what_it_cannot_take_is_refused_with_a_reason(q: Tensor, says: str):
    kept = q.new_zeros(1, 2, 5, q.shape[-1])
    with kernels("triton"), pytest.raises(ValueError, match=rf"cannot run window_decode: .*{says}"):
        window_decode(q, kept, kept, 4)
