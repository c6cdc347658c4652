"""Run by test_interpreted.py: Taylor attention in Triton's interpreter, in float32, against float64."""

import pytest
import torch
from torch import Tensor

from tests.kernels.agreement import as_near_as_torch, gradients_inside_vmap, members_as_alone
from zoo.kernels.choice import kernels
from zoo.kernels.taylor_attention import taylor_attention, taylor_attention_reference
from zoo.kernels.taylor_attention.triton import taylor_attention_triton, unfit

EPS = 1e-3  # large, so that leaving it out is seen
SIZES = [(1, 1, 1, 2), (2, 3, 63, 5), (1, 2, 64, 16), (1, 1, 65, 24), (1, 2, 130, 16), (1, 1, 200, 32)]


def heads(batch: int, count: int, length: int, channels: int, width: int) -> list[Tensor]:
    """q, k and v as a mixer hands them over: pieces of one projection, heads side by side."""
    rng = torch.Generator().manual_seed(length + channels)
    whole = torch.randn(batch, length, count * (2 * channels + width), generator=rng)
    parts = whole.unflatten(-1, (count, -1)).transpose(1, 2).split([channels, channels, width], -1)
    return [part.detach().requires_grad_() for part in parts]


@pytest.mark.parametrize(("size", "width"), list(zip(SIZES, [4, 16, 24, 33, 16, 64], strict=True)), ids=str)
def test_outputs_and_gradients(size: tuple[int, int, int, int], width: int):
    as_near_as_torch(taylor_attention_triton, taylor_attention_reference, [*heads(*size, width), EPS])


def test_any_leading_dimensions():
    q, k, v = heads(2, 3, 17, 5, 6)
    for pick in (lambda x: x[0, 0], lambda x: x[0], lambda x: x[None]):
        inputs = [pick(x).detach().requires_grad_() for x in (q, k, v)]
        as_near_as_torch(taylor_attention_triton, taylor_attention_reference, [*inputs, EPS])


@pytest.mark.parametrize("in_dims", [(0, 0, 0, None), (0, None, 2, None)])
def test_stacked_members_are_more_of_the_batch(in_dims: tuple[int | None, ...]):
    members_as_alone(taylor_attention_triton, [*heads(2, 2, 35, 4, 8), EPS], in_dims)


def test_gradients_inside_vmap():
    gradients_inside_vmap(taylor_attention_triton, [*heads(1, 2, 20, 4, 8), EPS])


def test_one_gradient_can_be_had_without_the_others():
    q, k, v = heads(1, 1, 40, 4, 8)
    (dk,) = torch.autograd.grad(taylor_attention_triton(q.detach(), k, v.detach(), EPS).sum(), k)
    torch.testing.assert_close(dk, torch.autograd.grad(taylor_attention_reference(q, k, v, EPS).sum(), k)[0])


def test_a_mixer_runs_it_when_asked():
    """Whole sequences through the kernel, then token by token: the split law in float32."""
    from zoo.mixers import LinearAttention
    from zoo.mixers.feature_maps import Taylor2

    mixer = LinearAttention(d_model=24, num_heads=2, feature_dim=5, feature_map=Taylor2, eps=EPS)
    x = torch.randn(2, 37, 24)
    with torch.no_grad(), kernels("triton") as choice:
        whole = mixer(x)
        head, state = mixer.extend(x[:, :30])
        tail, _ = mixer.extend(x[:, 30:], state)
    assert choice.record() == {"taylor_attention": "triton", "taylor_scan": "triton"}
    torch.testing.assert_close(torch.cat([head, tail], 1), whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ((torch.zeros(4, 33), torch.zeros(4, 33), torch.zeros(4, 8)), r"feature_dim \(=33\) must be at most"),
        ((torch.zeros(4, 3).double(), torch.zeros(4, 3).double(), torch.zeros(4, 8).double()), "float64"),
        ((torch.zeros(1, 4, 3), torch.zeros(2, 4, 3), torch.zeros(2, 4, 8)), "same leading dimensions"),
    ],
)
def test_what_it_cannot_take_is_refused_with_a_reason(inputs: tuple[Tensor, ...], says: str):
    with kernels("triton"), pytest.raises(ValueError, match=rf"cannot run taylor_attention: .*{says}"):
        taylor_attention(*inputs, EPS)


def test_short_of_nothing_else():
    assert unfit(*heads(1, 1, 3, 32, 200), EPS) is None
