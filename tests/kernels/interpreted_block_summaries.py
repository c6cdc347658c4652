"""Run by test_interpreted.py: block summaries in Triton's interpreter, in float32, against float64."""

import pytest
import torch

from tests.kernels import test_block_summaries_gpu as on_a_card
from tests.kernels.agreement import as_near_as_torch, gradients_inside_vmap, members_as_alone
from zoo.kernels.block_summaries import block_summaries, block_summaries_reference
from zoo.kernels.block_summaries.triton import block_summaries_triton
from zoo.kernels.choice import kernels

SIZES = [  # B, H, G, C, blocks, block_size
    (2, 4, 2, 5, 9, 8),
    (1, 1, 1, 16, 1, 1),
    (1, 2, 1, 24, 70, 1),
    (1, 2, 2, 4, 24, 3),
    (1, 1, 1, 70, 2, 70),  # queries and channels in parts
    (1, 1, 1, 8, 0, 4),
]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_outputs_and_gradients(size: tuple[int, ...]):
    given = on_a_card.inputs(size, "cpu", torch.float32)
    if size[4]:
        as_near_as_torch(block_summaries_triton, block_summaries_reference, given)
    else:
        assert block_summaries_triton(*given).shape == (1, 1, 0, 8)


@pytest.mark.parametrize("in_dims", [(0, 1, 2, None), (0, 0, None, None)])
def test_stacked_members_are_more_of_the_batch(in_dims: tuple[int | None, ...]):
    inputs = on_a_card.inputs((2, 2, 1, 5, 3, 4), "cpu", torch.float32)
    members_as_alone(block_summaries_triton, inputs, in_dims)


def test_gradients_inside_vmap():
    inputs = on_a_card.inputs((1, 2, 1, 5, 3, 4), "cpu", torch.float32)
    gradients_inside_vmap(block_summaries_triton, inputs)


def test_what_it_cannot_take_is_refused_with_a_reason():
    for size, dtype, says in (
        ((1, 1, 1, 129, 1, 2), torch.float32, r"head_dim \(=129\) must be at most 128"),
        ((1, 1, 1, 4, 1, 129), torch.float32, r"block_size \(=129\) must be at most 128"),
        ((1, 1, 1, 4, 1, 2), torch.float64, "float64"),
    ):
        with kernels("triton"), pytest.raises(ValueError, match=f"cannot run block_summaries: .*{says}"):
            block_summaries(*on_a_card.inputs(size, "cpu", dtype))
