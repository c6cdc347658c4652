"""Run by test_interpreted.py: the short convolution in Triton's interpreter, in float32, against float64."""

import pytest
import torch
from torch import Tensor

from tests.kernels import test_short_conv_gpu as on_a_card
from tests.kernels.agreement import as_near_as_torch, gradients_inside_vmap, members_as_alone
from zoo.kernels.choice import kernels
from zoo.kernels.short_conv import short_conv, short_conv_reference
from zoo.kernels.short_conv import triton as ours
from zoo.kernels.short_conv.triton import short_conv_triton


def draw(batch: int, length: int, channels: int, taps: int) -> list[Tensor]:
    """x, as a piece of a wider tensor, weight, bias and tail."""
    return on_a_card.draw((batch, length, channels, taps), torch.float32, "cpu")


SIZES = [(1, 1, 1, 1), (2, 1, 5, 4), (2, 3, 5, 4), (2, 2, 3, 8), (1, 35, 70, 3), (2, 17, 3, 1)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_outputs_and_gradients(sizes: tuple[int, int, int, int]):
    as_near_as_torch(short_conv_triton, short_conv_reference, draw(*sizes))


@pytest.mark.parametrize("given", [2, 3])
def test_what_may_be_left_out(given: int):
    """The tail, and the bias with it."""
    as_near_as_torch(short_conv_triton, short_conv_reference, draw(2, 19, 5, 4)[:given])


def test_a_tail_without_a_bias():
    x, weight, _, tail = draw(2, 19, 5, 4)
    as_near_as_torch(short_conv_triton, short_conv_reference, [x, weight, None, tail])


def test_spans_of_a_long_sequence(monkeypatch: pytest.MonkeyPatch):
    """What ends in one span reaches into the next."""
    monkeypatch.setattr(ours, "SPAN", 16)
    as_near_as_torch(short_conv_triton, short_conv_reference, draw(1, 75, 5, 4))


@pytest.mark.parametrize("in_dims", [(0, 0, 0, 0), (None, 0, None, 1), (1, None, None, None)])
def test_stacked_members_are_more_of_the_batch(in_dims: tuple[int | None, ...]):
    members_as_alone(short_conv_triton, draw(2, 17, 3, 4), in_dims)


def test_gradients_inside_vmap():
    gradients_inside_vmap(short_conv_triton, draw(2, 5, 3, 4))


@pytest.mark.parametrize("sizes", [(2, 20, 5, 4)])
def test_what_a_card_is_asked(sizes: tuple[int, ...]):
    on_a_card.same_bits_twice(short_conv_triton, draw(*sizes))


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ((torch.zeros(1, 4, 3).double(), torch.zeros(2, 3)), "float64"),
        ((torch.zeros(1, 4, 3), torch.zeros(9, 3)), r"kernel_size \(=9\) must be at most 8"),
    ],
)
def test_what_it_cannot_take_is_refused_with_a_reason(inputs: tuple[Tensor, ...], says: str):
    with kernels("triton"), pytest.raises(ValueError, match=rf"cannot run short_conv: .*{says}"):
        short_conv(*inputs)
