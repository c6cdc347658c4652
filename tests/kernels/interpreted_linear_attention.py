"""Run by test_interpreted.py: linear attention in Triton's interpreter, in float32, against float64."""

import pytest
import torch
from torch import Tensor

from tests.kernels.agreement import as_near_as_torch, gradients_inside_vmap, members_as_alone
from zoo.kernels.choice import kernels
from zoo.kernels.linear_attention import linear_attention, linear_attention_reference
from zoo.kernels.linear_attention.triton import linear_attention_triton

EPS = 0.25  # large, so that leaving it out is seen


def draw(batch: int, count: int, length: int, features: int, width: int) -> list[Tensor]:
    """phi_q, phi_k, v as pieces of one projection, heads side by side; the sums before them."""
    rng = torch.Generator().manual_seed(length + features)
    whole = torch.rand(batch, length, count * (2 * features + width), generator=rng)
    parts = whole.unflatten(-1, (count, -1)).transpose(1, 2).split([features, features, width], -1)
    kv = torch.randn(batch, count, features, width, generator=rng)
    z = torch.rand(batch, count, features, generator=rng)
    return [x.detach().requires_grad_() for x in (parts[0], parts[1], parts[2] - 0.5, kv, z)]


@pytest.mark.parametrize(
    ("size", "eps", "with_sums"),
    [
        ((1, 1, 1, 2, 3), EPS, True),
        ((1, 2, 65, 37, 66), EPS, True),  # two chunks, two blocks of features, two of values
        ((1, 1, 130, 5, 6), None, True),
        ((1, 1, 70, 16, 16), EPS, False),
    ],
    ids=str,
)
def test_outputs_sums_and_gradients(size: tuple[int, int, int, int, int], eps: float | None, with_sums: bool):
    q, k, v, kv, z = draw(*size)
    sums = [] if not with_sums else [kv] if eps is None else [kv, z]
    as_near_as_torch(linear_attention_triton, linear_attention_reference, [q, k, v, eps, *sums])


def test_going_on_from_the_sums_is_the_whole():
    q, k, v, kv, z = (x.detach() for x in draw(1, 1, 80, 5, 6))
    whole = linear_attention_triton(q, k, v, EPS, kv, z)
    y1, kv, z = linear_attention_triton(q[:, :, :66], k[:, :, :66], v[:, :, :66], EPS, kv, z)
    y2, kv, z = linear_attention_triton(q[:, :, 66:], k[:, :, 66:], v[:, :, 66:], EPS, kv, z)
    torch.testing.assert_close((torch.cat([y1, y2], 2), kv, z), whole, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("in_dims", [(0, 0, 0, None, 0, 0), (0, None, 2, None, None, None)])
def test_stacked_members_are_more_of_the_batch(in_dims: tuple[int | None, ...]):
    q, k, v, kv, z = draw(2, 2, 20, 4, 5)
    members_as_alone(linear_attention_triton, [q, k, v, EPS, kv, z], in_dims)


def test_gradients_inside_vmap():
    gradients_inside_vmap(linear_attention_triton, [*draw(1, 1, 10, 3, 4)[:3], EPS])


@pytest.mark.parametrize("which", [0, 1, 2])
def test_gradients_of_one_output_alone(which: int):
    q, k, v, kv, z = draw(1, 1, 20, 4, 5)

    def one(op):
        return lambda *inputs: op(*inputs)[which]

    used = [q, k, v, EPS, kv, z] if which == 0 else [q.detach(), k, v if which == 1 else v.detach(), EPS]
    as_near_as_torch(one(linear_attention_triton), one(linear_attention_reference), used)


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ((torch.zeros(1, 1, 4, 3).double(),) * 3, "float64"),
        ((torch.zeros(1, 1, 4, 3), torch.zeros(1, 1, 4, 2), torch.zeros(1, 1, 4, 3)), r"must be \[B H T K\]"),
        ((torch.zeros(4, 3),) * 3, r"and are \[4, 3\]"),
    ],
)
def test_what_it_cannot_take_is_refused_with_a_reason(inputs: tuple[Tensor, ...], says: str):
    with kernels("triton"), pytest.raises(ValueError, match=rf"cannot run linear_attention: .*{says}"):
        linear_attention(*inputs, EPS)
