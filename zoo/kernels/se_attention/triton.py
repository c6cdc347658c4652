"""Compute attention to a chunk and chosen blocks in Triton; keys are read in place, not gathered.

Logits x = q k / sqrt C (+ bias), weights p = exp(x - lse); lse, the log of the sum of the exponentials, is
kept (to base 2) for the backward pass, [B H T] in float32.  With dp = dy v^T and delta = sum of dy y over C,

    dv = p^T dy,   ds = p (dp - delta),   dq = ds k / sqrt C,   dk = ds^T q / sqrt C,   dbias = the sum of ds.

A key's gradient comes from its own chunk and from every row that chose its block.  These rows are found in an
inverted list, a stable sort of the ids, which a program reads from end to end: there are no atomics, and two
runs give the same bits.  A block that all rows choose makes one long loop.

The floor: 4 C FLOPs a pair forward and 10 C backward, where a token has (chunk + 1) / 2 + N block_size pairs;
bytes are those of q, k, v and y, because a chunk's tiles read again from the cache.  Where rows are tokens,
the output of each choice is stored as well, N times the size of y (`triton_far`).

B batch, H query heads, G key/value heads, I index sets (1 or G), T queries, S keys, C channels, R rows that
choose, N blocks.  Tensors come with the strides they have; the last must be 1.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor

from zoo.kernels.common.folding import Folding, Gradients
from zoo.kernels.common.launching import mixed, unfit_here
from zoo.kernels.common.tiles import rows_last
from zoo.kernels.se_attention.triton_launches import Inputs, Shape, attend, gradients
from zoo.kernels.span_retrieval import Chunks

LARGEST = {torch.float32: 64, torch.bfloat16: 128}  # channels of a head: more would spill registers
MOST_CHOICES = 32 * 65_535  # of all rows: programs of 32 choices, in the second dimension of a grid
TABLES = (5, 6)  # inputs that have no batch


def se_attention_triton(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    blocks: Tensor | None,
    bias: Tensor | None,
    chunks: Chunks,
    block_size: int,
) -> Tensor:
    """Attend to keys in place, not gathered; y has the dtype of q."""
    (batch, _, length), rows = q.shape[:3], len(chunks.starts)
    if blocks is None:
        blocks = torch.empty(batch, 1, rows, 0, dtype=torch.int32, device=q.device)
    shape = Shape(chunks.size or 0, chunks.offset, block_size, blocks.shape[2] != rows)
    tables = (None, None) if chunks.size else _tables(chunks, length)
    ids = blocks.to(torch.int32).expand(batch, -1, -1, -1).contiguous()
    bias = None if bias is None else bias.float().expand(batch, -1, -1, -1).contiguous()
    return _Attention.apply(rows_last(q), rows_last(k), rows_last(v), ids, bias, *tables, *shape)[0]


def _tables(chunks: Chunks, length: int) -> tuple[Int[Tensor, "T"], Int[Tensor, "R+1"]]:
    """Return the chunk of each token, and where each begins, with the end."""
    begins_at = F.pad(chunks.starts.to(torch.int32), (0, 1), value=length)
    return chunks.of_token.to(torch.int32).contiguous(), begins_at


def unfit(
    q: Tensor, k: Tensor, v: Tensor, blocks: Tensor | None, bias: Tensor | None, chunks: Chunks, *_: Any
) -> str | None:
    """Return why the kernel cannot take these inputs; None: it can."""
    if chunks.size is None and bias is not None and bias.shape[2] != q.shape[2]:
        return "a bias for a chunk needs chunks of one size"
    if reason := mixed(q, k, v, dtypes=LARGEST):
        return reason
    if q.shape[-1] > LARGEST[q.dtype]:
        return f"head_dim (={q.shape[-1]}) must be at most {LARGEST[q.dtype]} in {q.dtype}"
    if blocks is not None and blocks.shape[1] not in (1, k.shape[1]):
        return f"index sets (={blocks.shape[1]}) must be 1 or one a key/value head (={k.shape[1]})"
    if blocks is not None and blocks[0, 0].numel() > MOST_CHOICES:
        return f"choices of all rows (={blocks[0, 0].numel()}) must be at most {MOST_CHOICES}"
    return unfit_here(q)


class _Attention(Folding):
    unbatched = TABLES

    @staticmethod
    def forward(*given: Any) -> tuple[Tensor, Tensor]:  # pyright: ignore
        """Launch the forward kernels.  given: `Inputs`, then `Shape`."""
        return attend(Inputs(*given[:7]), Shape(*given[7:]))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.shape = inputs[7:]
        ctx.save_for_backward(*inputs[:7], *output)

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, _: None) -> tuple[Tensor | None, ...]:  # pyright: ignore
        """Return the gradients of q, k, v and the bias."""
        if dy is None:
            return (None,) * 11
        dq, dk, dv, dbias = _Backward.apply(*ctx.saved_tensors, dy, *ctx.shape)
        return dq, dk, dv, None, dbias if ctx.needs_input_grad[4] else None, *(None,) * 6


class _Backward(Gradients):
    unbatched = TABLES

    @staticmethod
    def forward(*given: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # pyright: ignore
        """Launch the backward kernels.  given: `Inputs`, then y, lse and dy, then `Shape`."""
        x, (y, lse, dy), shape = Inputs(*given[:7]), given[7:10], Shape(*given[10:])
        dq, dk, dv, shares = gradients(x, shape, y, lse, rows_last(dy))
        if x.bias is None:
            return dq, dk, dv, x.q.new_zeros(x.q.shape[0])
        return dq, dk, dv, shares.unflatten(1, (x.ids.shape[1], -1)).sum(2)
