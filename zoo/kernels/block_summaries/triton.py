"""Summarise blocks in Triton: q, k and v are read once, and only the summaries are written.

A program takes as many whole blocks as fit into a tile.  Their weights p are one tile under a mask of blocks
on its diagonal, so a summary needs only the sums of p over its queries: c = (1 / block_size) sum over j of
(sum over i of p_ij) v_j.  The floor is the bytes of q, k and v.  The backward pass, which only a gate asks
for, is that of the definition, in torch.

B batch, H query heads, G key/value heads, T time, U blocks, C channels per head.
"""

# pyright: reportArgumentType=false, reportCallIssue=false

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from zoo.kernels.block_summaries.reference import block_summaries_reference
from zoo.kernels.common.folding import Folding, Gradients
from zoo.kernels.common.launching import launch_options, mixed, strided, unfit_here
from zoo.kernels.common.tiles import dot, hopper, load_block, power_of_two, rows_last, store_block

TILES = (64, 128)  # tokens of a program
LARGEST = 128  # channels of a head
DTYPES = (torch.float32, torch.bfloat16)
LOG2E = tl.constexpr(1.4426950408889634)  # the kernel raises 2, not e


def block_summaries_triton(q: Tensor, k: Tensor, v: Tensor, block_size: int) -> Tensor:
    """Summarise every block; q, k and v are read once."""
    return _Summaries.apply(rows_last(q), rows_last(k), rows_last(v), block_size)[0]


def unfit(q: Tensor, k: Tensor, v: Tensor, block_size: int) -> str | None:
    """Return why the kernel cannot take these inputs; None: it can."""
    if reason := mixed(q, k, v, dtypes=DTYPES):
        return reason
    if q.shape[-1] > LARGEST:
        return f"head_dim (={q.shape[-1]}) must be at most {LARGEST}"
    if block_size > TILES[-1]:
        return f"block_size (={block_size}) must be at most {TILES[-1]}"
    return unfit_here(q)


class Cut(NamedTuple):
    """The sizes of one program.  channels: the number that is read at a time."""

    channels: int
    num_warps: int


def cut(tile: int, width: int, bits: int) -> Cut:
    """Return sizes fixed by shapes, dtype and card, so that second runs do the same; no register spills."""
    size, few = power_of_two(width), 4 if tile == 64 and width <= 64 else 8
    if hopper():
        return Cut(min(size, 64) if bits == 32 else size, few)
    return Cut(min(size, 512 // bits), few)


class _Summaries(Folding):
    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, block_size: int) -> tuple[Tensor]:  # pyright: ignore
        """Launch the kernel."""
        (batch, heads, length, width), blocks = q.shape, q.shape[2] // block_size
        tile = next(size for size in TILES if size >= block_size)
        c = torch.empty(batch, heads, blocks, width, device=q.device)
        channels, num_warps = cut(tile, width, 8 * q.element_size())
        if blocks:
            _summaries[batch * heads, triton.cdiv(blocks, tile // block_size)](
                *(*strided(q, k, v), c),
                *(heads, k.shape[1], length, blocks, block_size, width**-0.5),
                **{"C": width, "CS": power_of_two(width), "STEP": channels},
                **{"TILE": tile, "PART": TILES[0], "BLOCK": power_of_two(tile // block_size)},
                **launch_options(num_warps, 1),
            )
        return (c,)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.save_for_backward(*inputs[:3])
        ctx.block_size = inputs[3]

    @staticmethod
    def backward(ctx: Any, dc: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        """Return the gradients of q, k and v."""
        return *_Backward.apply(*ctx.saved_tensors, dc, ctx.block_size), None


class _Backward(Gradients):
    @staticmethod
    def forward(  # pyright: ignore
        q: Tensor, k: Tensor, v: Tensor, dc: Tensor, block_size: int
    ) -> tuple[Tensor, ...]:
        """Differentiate the definition."""
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in (q, k, v)]
            c = block_summaries_reference(*leaves, block_size)
            return torch.autograd.grad(c, leaves, dc)


@triton.jit
def _summaries(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, v, v_b, v_h, v_t, c,
    H, G, T, U, block_size, scale,
    C: tl.constexpr, CS: tl.constexpr, STEP: tl.constexpr,
    TILE: tl.constexpr, PART: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Summarise the whole blocks of a head that fit into TILE tokens: at most BLOCK, a power of two.

    PART queries and STEP channels at a time.
    """
    head, fit = tl.program_id(0).to(tl.int64), TILE // block_size
    b, h = head // H, head % H
    g, first = h * G // H, tl.program_id(1) * fit
    q, k, v = q + b * q_b + h * q_h, k + b * k_b + g * k_h, v + b * v_b + g * v_h
    j = tl.arange(0, TILE)
    block_of, t = j // block_size, tl.where(j < fit * block_size, first * block_size + j, T)
    weights = tl.zeros([TILE], tl.float32)
    for part in range(0, TILE, PART):
        i = part + tl.arange(0, PART)
        row_of = tl.where(i < fit * block_size, first * block_size + i, T)
        x = tl.zeros([PART, TILE], tl.float32)
        for start in range(0, CS, STEP):
            queries = load_block(q, q_t, row_of, T, start, C, STEP)
            x = dot(queries, tl.trans(load_block(k, k_t, t, T, start, C, STEP)), x)
        x = tl.where((i // block_size)[:, None] == block_of[None, :], x * (scale * LOG2E), float("-inf"))
        p = tl.exp2(x - tl.max(x, 1)[:, None])
        weights += tl.sum(p / tl.sum(p, 1)[:, None], 0)
    weights /= block_size
    u = tl.arange(0, BLOCK)
    spread = tl.where(u[:, None] == block_of[None, :], weights[None, :], 0.0)
    row = tl.where(u < fit, first + u, U)
    for start in range(0, CS, STEP):
        values = load_block(v, v_t, t, T, start, C, STEP).to(tl.float32)
        store_block(c + head * U * C, C, row, U, start, dot(spread, values), C, STEP)
