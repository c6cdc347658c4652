"""Gated linear attention for a CPU in C (native.c): step by step, in place of chunks that are many passes.

n saved states of a head, Q steps between two; the other letters are the interface's.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.kernels.common.folding import Folding
from zoo.kernels.common.native import Native, drawn, side_by_side
from zoo.kernels.gated_linear_attention.chunked import gated_linear_attention_chunked

BLOCK = 16  # Q


def gated_linear_attention_native(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Go step by step in C."""
    if log_decay.ndim < k.ndim:
        log_decay = log_decay[..., None]
    if state is None:
        state = q.new_zeros(*q.shape[:2], q.shape[3], v.shape[3])
    y, last, _ = _Attention.apply(q, k, v, log_decay, state)  # pyright: ignore
    return y, last


class _Attention(Folding):
    """Map (q, k, v, log_decay [B H T G], first state) to y, last state, [B H n K V] saved states."""

    @staticmethod
    def forward(*inputs: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore
        """Go step by step, and save the state before every block."""
        *given, state = inputs
        q, k, v, log_decay = (_rows(s) for s in given)
        last = state.clone(memory_format=torch.contiguous_format)
        (B, H, T, K), V, G = q.shape, v.shape[3], log_decay.shape[3]
        y, starts = _by_time(v), last.new_empty(B, H, -(-T // BLOCK), K, V)

        def run(_: int, rows: slice) -> None:
            share = [s[rows] for s in (q, k, v, log_decay)]
            sizes = len(share[0]), H, T, K, V, G, BLOCK
            out = last[rows], starts[rows], y[rows]
            NATIVE.library()("attention_forward", *sizes, _strides(share), *share, *out, q.new_empty(G))

        side_by_side(run, 1, B)
        return y.transpose(1, 2), last, starts

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        *saved, _ = inputs  # the first state is among the saved ones
        ctx.save_for_backward(*saved, output[2])
        ctx.mark_non_differentiable(output[2])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:  # pyright: ignore
        """Go back block by block."""
        *given, starts = ctx.saved_tensors
        q, k, v, log_decay, dy = (_rows(s) for s in (*given, grads[0]))
        owed = grads[1].clone(memory_format=torch.contiguous_format)
        (B, H, T, K), V, G = q.shape, v.shape[3], log_decay.shape[3]
        results = [_by_time(s) for s in (q, k, v, log_decay)]

        def run(_: int, rows: slice) -> None:
            share = [s[rows] for s in (q, k, v, log_decay, dy)]
            sizes, scratch = (len(share[0]), H, T, K, V, G, BLOCK), q.new_empty(BLOCK * (K * V + G))
            out = (s[rows] for s in (starts, owed, *results))
            NATIVE.library()("attention_backward", *sizes, _strides(share), *share, *out, scratch)

        side_by_side(run, 1, B)
        return *(s.transpose(1, 2) for s in results), owed


def _rows(s: Tensor) -> Tensor:
    """Return a tensor of any strides but 1 in the last dimension."""
    return s if s.stride(-1) == 1 or s.shape[-1] == 1 else s.contiguous()


def _strides(tensors: list[Tensor]) -> Tensor:
    return torch.tensor([s.stride()[:3] for s in tensors])


def _by_time(like: Tensor) -> Tensor:
    """Make [B T H x] for a tensor of [B H T x]: heads lie within a token, as in the mixers' projections."""
    B, H, T, X = like.shape
    return like.new_empty(B, T, H, X)


def _inputs() -> list[Tensor]:
    """Draw sizes that are no multiple of what a register holds."""
    B, H, T, K, V = 2, 3, 2 * BLOCK + 5, 5, 19
    q, k, v, log_decay, state = drawn((B, H, T, K), (B, H, T, K), (B, H, T, V), (B, H, T, K), (B, H, K, V))
    return [q, k, v, -log_decay.abs(), state]


NATIVE = Native(
    Path(__file__).with_suffix(".c"), gated_linear_attention_native, gated_linear_attention_chunked, _inputs
)
absent, unfit = NATIVE.absent, NATIVE.unfit
