"""Run by test_interpreted.py: the decoding step in Triton's interpreter, in float32, against float64."""

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from tests.kernels.agreement import as_near_as_torch, results
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


@pytest.mark.parametrize("stack_slopes", [None, False, True])
def test_stacked_members_are_more_of_the_batch(stack_slopes: bool | None):
    members = [draw(2, 2, 1, 9, 4) for _ in range(3)]
    stacked = [
        torch.stack([m[i].detach() * (j + 1) for j, m in enumerate(members)]).requires_grad_()
        for i in range(3)
    ]
    slopes = None if stack_slopes is None else alibi_slopes(2)
    if stack_slopes:
        slopes = torch.stack([alibi_slopes(2) / (i + 1) for i in range(3)])
    in_dims = (0, 0, 0, None, 0 if stack_slopes else None)
    y = vmap(window_decode_triton, in_dims=in_dims)(*stacked, 5, slopes)
    upstream = torch.randn(y.shape, dtype=torch.float64)
    grads = torch.autograd.grad(y, stacked, upstream.to(y))
    for i in range(3):
        own = [x[i].detach().requires_grad_() for x in stacked]
        biases = slopes[i] if stack_slopes and slopes is not None else slopes
        alone = results(attention_reference, [*own, 5, biases], [upstream[i]])
        torch.testing.assert_close([y[i], *(grad[i] for grad in grads)], alone)


def test_gradients_inside_vmap():
    stacked = [torch.stack([x.detach(), 2 * x.detach()]) for x in draw(1, 2, 1, 9, 4)]

    def loss(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return window_decode_triton(q, k, v, 5).square().sum()

    grad = torch.func.grad(loss, argnums=(0, 1, 2))
    alone = zip(*(grad(*(x[i] for x in stacked)) for i in range(2)), strict=True)
    torch.testing.assert_close(list(vmap(grad)(*stacked)), [torch.stack(parts) for parts in alone])


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
