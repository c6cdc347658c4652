"""A recurrence over tokens in C, forward and backward, whose state is one matrix for each head.

The C file has two functions, `forward` and `backward`, with the arguments that `Recurrence` passes to them.
B batch, H heads, T steps, K key channels, V value channels; inputs are [B H T x], in the op's order: queries,
keys, values and whatever else a step reads.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from zoo.kernels.common.first_order import first_order
from zoo.kernels.common.folding import Folding
from zoo.kernels.common.native import Native, side_by_side

BLOCK = 16  # Q steps between two saved states


class Recurrence(Folding):
    """Map (inputs, first state) to y, last state, [B H ceil(T/Q) K V] saved states.

    native: the library.
    """

    native: ClassVar[Native]

    @staticmethod
    def number(given: Sequence[Tensor]) -> int:
        """Return the one number that the C functions need besides the sizes."""
        del given
        return 1

    @staticmethod
    def channels(given: Sequence[Tensor]) -> int:
        """Return the number of channels of y: V."""
        return given[2].shape[3]

    @classmethod
    def forward(cls, *inputs: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore
        """Go step by step, and save the state before every block."""
        *given, state = inputs
        given = [_rows(s) for s in given]
        last = state.clone(memory_format=torch.contiguous_format)
        B, *sizes = _sizes(given, cls.number(given))
        y = _by_time(given[0], cls.channels(given))
        starts = last.new_empty(B, sizes[0], -(-sizes[1] // BLOCK), *sizes[2:4])
        strides = _strides(given)

        def run(_: int, rows: slice) -> None:
            share, out = [s[rows] for s in given], (s[rows] for s in (last, starts, y))
            cls.native.library()("forward", len(share[0]), *sizes, strides, *share, *out, _scratch(share))

        side_by_side(run, 1, B)
        return y.transpose(1, 2), last, starts

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        *saved, _ = inputs  # the saved states begin with the first state
        ctx.save_for_backward(*saved, output[2])
        ctx.mark_non_differentiable(output[2])

    @classmethod
    @first_order
    def backward(cls, ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore
        """Go back block by block."""
        *given, starts = ctx.saved_tensors
        read = [_rows(s) for s in (*given, grads[0])]
        owed = grads[1].clone(memory_format=torch.contiguous_format)
        B, *sizes = _sizes(given, cls.number(given))
        results = [_by_time(s, s.shape[3]) for s in given]
        strides = _strides(read)

        def run(_: int, rows: slice) -> None:
            share, out = [s[rows] for s in read], (s[rows] for s in (starts, owed, *results))
            cls.native.library()("backward", len(share[0]), *sizes, strides, *share, *out, _scratch(share))

        side_by_side(run, 1, B)
        return *(s.transpose(1, 2) for s in results), owed


def _sizes(given: Sequence[Tensor], number: int) -> tuple[int, ...]:
    (B, H, T, K), V = given[1].shape, given[2].shape[3]
    return B, H, T, K, V, number, BLOCK


def _scratch(given: Sequence[Tensor]) -> Tensor:
    """Return memory for a block of states, and for what a step computes besides its state."""
    K, V = given[1].shape[3], given[2].shape[3]
    return given[0].new_empty((BLOCK + 1) * (K * V + 2 * (K + V)))


def _rows(s: Tensor) -> Tensor:
    """Return `s` with stride 1 in the last dimension; its other strides may be any."""
    return s if s.stride(-1) == 1 or s.shape[-1] == 1 else s.contiguous()


def _strides(tensors: Sequence[Tensor]) -> Tensor:
    return torch.tensor([s.stride()[:3] for s in tensors])


def _by_time(like: Tensor, channels: int) -> Tensor:
    """Return an empty [B T H channels] for [B H T x]: a token's heads are adjacent, as in projections."""
    B, H, T, _ = like.shape
    return like.new_empty(B, T, H, channels)
