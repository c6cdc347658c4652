"""Compute log-linear attention in aligned blocks of a power of two, which the Fenwick tree never cuts.

Inside such a block the level of key j for query i is the number of binary digits of i xor j: one table serves
all blocks.  The tokens before the block are in the states of the digits above, one product each.

N blocks of C tokens; the other letters are those of `log_linear_attention`.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zoo.kernels.common.decay import decays
from zoo.kernels.log_linear_attention.reference import add, ones, stacked

CHUNK = 32  # tokens; a power of two
Answers = Callable[[list[Tensor], dict[int, Tensor]], Tensor]


def log_linear_attention_chunked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor,
    scales: Tensor,
    state: Tensor | None = None,
    offset: int = 0,
) -> tuple[Tensor, Tensor]:
    """Compute what is inside a block by one table of levels, and the past by one product a state."""
    return in_blocks((q, k, v, log_decay, scales), state, offset, _answers)


def in_blocks(
    tokens: Sequence[Float[Tensor, "B H T *any"]], state: Tensor | None, offset: int, answers: Answers
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B S H K V"]]:
    """Return the outputs and the state after them.  answers: returns those of N blocks of a size, from their
    tokens [B H N C ..] and the states before, which it updates to the blocks' end.
    """
    live = {} if state is None else dict(zip(ones(offset), state.unbind(1), strict=True))
    sizes = _runs(offset, tokens[0].shape[2])
    lengths = [size * count for size, count in sizes]
    parts = zip(*(x.split(lengths, dim=2) for x in tokens), strict=True)
    ys = [
        answers([x.unflatten(2, (-1, size)) for x in part], live)
        for (size, _), part in zip(sizes, parts, strict=True)
    ]
    return torch.cat(ys, dim=2), stacked(live)


def _runs(start: int, length: int) -> list[tuple[int, int]]:
    """Return size and number of the blocks that fill [start, start + length): the largest that fit."""
    runs, stop = [], start + length
    while start < stop:
        size = min(CHUNK, start & -start or CHUNK, 1 << (stop - start).bit_length() - 1)
        count = (stop - start) // size if size == CHUNK else 1
        runs.append((size, count))
        start += size * count
    return runs


def _answers(tokens: list[Tensor], live: dict[int, Tensor]) -> Float[Tensor, "B H N*C V"]:
    q, k, v, log_decay, scales = tokens
    left, since_start = decays(log_decay)
    inside = by_level(scales, left * (q @ k.mT)) @ v
    written = (k * left[..., -1, :, None]).mT @ v
    return with_pieces(inside, q * since_start, scales, since_start[..., -1:, :], written, live, torch.mul)


def with_pieces(
    inside: Float[Tensor, "B H N C V"],
    q: Float[Tensor, "B H N C K"],
    scales: Float[Tensor, "B H N C L"],
    carry: Float[Tensor, "B H N I J"],
    written: Float[Tensor, "B H N K V"],
    live: dict[int, Tensor],
    apply: Callable[[Tensor, Tensor], Tensor],
) -> Float[Tensor, "B H N*C V"]:
    """Return the blocks' outputs, from `inside` and from the states before, and update `live` to their end.

    q: the queries as they read a state at a block's start.  carry: moves a state over a block, by `apply`.
    """
    size, ys = q.shape[3], []
    blocks = (x.unbind(2) for x in (inside, q, scales, carry, written))
    for y, q_n, scales_n, carry_n, written_n in zip(*blocks, strict=True):
        scale_of = scales_n.split(1, dim=-1)
        for bit, S in live.items():
            y = y + (q_n * scale_of[bit + 1]) @ S
            live[bit] = apply(carry_n, S)
        add(live, size.bit_length() - 1, written_n)
        ys.append(y)
    return torch.cat(ys, dim=2)


def by_level(
    scales: Float[Tensor, "B H N C L"], weights: Float[Tensor, "B H N C C"]
) -> Float[Tensor, "B H N C C"]:
    """Return the weights of an aligned block's tokens, times the scales of their levels."""
    return scales.gather(-1, _levels(weights.shape[-1], weights.device).expand_as(weights)) * weights


def _levels(size: int, device: torch.device) -> Int[Tensor, "C C"]:
    """Return [i, j]: the binary digits of i xor j, key j's level for query i of an aligned block."""
    place = torch.arange(size, device=device)
    powers = 1 << torch.arange(size.bit_length() - 1, device=device)
    return ((place[:, None] ^ place)[..., None] >= powers).sum(-1)
