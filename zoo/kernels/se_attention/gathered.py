"""Compute attention to a chunk and chosen blocks from gathered keys: O(T (chunk + N block)) time.

A few chunks are computed at a time, long ones in pieces, and again in the backward pass, so that memory stays
near that of the inputs.

B batch, H query heads, G key/value heads, P query heads of each, I index sets (1 or G), C channels, M chunks
of Q queries and K keys, R rows of a chunk that choose (1 or Q), N blocks of L keys together, U blocks.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from zoo.kernels.common.folding import Folding, Gradients
from zoo.kernels.span_retrieval import Chunks

LOGITS = 2**21  # in memory at a time, about


def se_attention_gathered(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    blocks: Tensor | None,
    bias: Tensor | None,
    chunks: Chunks,
    block_size: int,
) -> Tensor:
    """Attend for a few chunks at a time, and again in the backward pass.  ValueError: chunk sizes differ."""
    if chunks.size is None:
        raise ValueError("chunks of different sizes cannot be gathered: use kernels=reference.")
    batch, length, offset = q.shape[0], q.shape[2], chunks.offset
    whole = offset + length > chunks.size  # otherwise a piece of one chunk
    size = chunks.size if whole else length
    front, back = (offset, -(offset + length) % size) if whole else (0, 0)
    queries = F.pad(q, (0, 0, front, back)).unflatten(2, (-1, size)).unflatten(1, (k.shape[1], -1))
    parts = [_last_chunks(x, offset + length, back, size if whole else offset + length) for x in (k, v)]
    parts += [_blocks(x, block_size) for x in (k, v)]
    if blocks is None:
        blocks = torch.zeros(1, 1, queries.shape[3], 0, dtype=torch.int64, device=q.device)
    if blocks.shape[2] == length and length > 1:
        blocks = F.pad(blocks, (0, 0, front, back), value=-1)
        bias = None if bias is None else F.pad(bias, (0, 0, front, back))
    blocks = blocks.unflatten(2, (queries.shape[3], -1)).expand(batch, -1, -1, -1, -1)
    bias = None if bias is None else bias.unflatten(2, (queries.shape[3], -1)).expand(batch, -1, -1, -1, -1)
    y = _Gathered.apply(queries, *parts, blocks, bias)[0]
    return y.flatten(1, 2).flatten(2, 3)[:, :, front : front + length]


def _last_chunks(x: Float[Tensor, "B G S C"], count: int, fill: int, size: int) -> Float[Tensor, "B G M K C"]:
    """Return the last `count` keys, from the start of a chunk on, in chunks."""
    return F.pad(x[:, :, x.shape[2] - count :], (0, 0, 0, fill)).unflatten(2, (-1, size))


def _blocks(x: Float[Tensor, "B G S C"], size: int) -> Float[Tensor, "B G U L*C"]:
    """Return the whole blocks, at least one, so that every index points at something."""
    whole = x.shape[2] // size
    x = x[:, :, : whole * size] if whole else F.pad(x, (0, 0, 0, size - x.shape[2]))
    return x.unflatten(2, (-1, size)).flatten(3).contiguous()


class _Tile(NamedTuple):
    """Some chunks, and some queries of each."""

    chunks: slice
    queries: slice
    keys: slice  # of the own chunk, that these queries see
    rows: slice


class _Gathered(Folding):
    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor]:  # pyright: ignore
        """Attend tile by tile.  inputs: q, the keys and values of chunks and of blocks, ids, bias."""
        q, chunk_k, _, k, _, ids, _ = inputs
        y = torch.empty_like(q)
        for tile in _tiles(q, chunk_k, k, ids):
            with torch.autocast(q.device.type, enabled=False):
                y[:, :, :, tile.chunks, tile.queries] = _attended(*_cut(tile, *inputs))
        return (y,)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        """Return the gradients of all but the ids."""
        dq, dok, dov, dk, dv, dbias = _Backward.apply(*ctx.saved_tensors, dy)
        return dq, dok, dov, dk, dv, None, dbias if ctx.needs_input_grad[6] else None


class _Backward(Gradients):
    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, ...]:  # pyright: ignore
        """Attend to each tile again, and differentiate it.  inputs: those of forward, and dy."""
        *given, dy = inputs
        q, chunk_k, _, k, _, ids, bias = given
        grads = [q.new_zeros(q.shape[:1] if x is None else x.shape) for x in (*given[:5], bias)]
        for tile in _tiles(q, chunk_k, k, ids):
            *parts, chosen = _cut(tile, *given)
            with torch.enable_grad(), torch.autocast(q.device.type, enabled=False):
                leaves = [None if x is None else x.detach().requires_grad_() for x in parts]
                y = _attended(*[*leaves, chosen])
                wanted = [x for x in leaves if x is not None]
                grads_of_tile = torch.autograd.grad(y, wanted, dy[:, :, :, tile.chunks, tile.queries])
            dq, dok, dov, dk, dv, *dbias = grads_of_tile
            grads[0][:, :, :, tile.chunks, tile.queries] = dq
            grads[1][:, :, tile.chunks, tile.keys] += dok
            grads[2][:, :, tile.chunks, tile.keys] += dov
            _scatter(grads[3], chosen, dk)
            _scatter(grads[4], chosen, dv)
            if dbias:
                grads[5][:, :, tile.chunks, tile.rows] += dbias[0]
        return tuple(grads)


def _tiles(q: Tensor, chunk_k: Tensor, k: Tensor, ids: Tensor) -> Iterator[_Tile]:
    """Cut q [B G P M Q C]: as many chunks, or as much of one, as LOGITS allows."""
    (batch, groups, shared, count, length, width), offset = q.shape, chunk_k.shape[3] - q.shape[4]
    per_row, retrieved = ids.shape[3] > 1, ids.shape[4] * (k.shape[3] // width)
    a_query = batch * groups * (shared * (chunk_k.shape[3] + retrieved) + per_row * retrieved * 2 * width)
    queries = min(length, max(16, LOGITS // a_query))
    chunks = max(1, LOGITS // (a_query * length)) if queries == length else 1
    for chunk in range(0, count, chunks):
        for first in range(0, length, queries):
            mine = slice(first, min(first + queries, length))
            rows = mine if per_row else slice(0, 1)
            yield _Tile(slice(chunk, chunk + chunks), mine, slice(0, offset + mine.stop), rows)


def _cut(tile: _Tile, *inputs: Any) -> list[Any]:
    """Return the tile's part of each input, and of k and v the chosen blocks, as `_attended` takes them."""
    q, chunk_k, chunk_v, k, v, ids, bias = inputs
    chosen = ids[:, :, tile.chunks, tile.rows]
    return [
        q[:, :, :, tile.chunks, tile.queries],
        chunk_k[:, :, tile.chunks, tile.keys],
        chunk_v[:, :, tile.chunks, tile.keys],
        _gather(k, chosen, q.shape[-1]),
        _gather(v, chosen, q.shape[-1]),
        None if bias is None else bias[:, :, tile.chunks, tile.rows],
        chosen,
    ]


def _gather(
    x: Float[Tensor, "B G U D"], ids: Int[Tensor, "B I M R N"], width: int
) -> Float[Tensor, "B G M R L C"]:
    at = _places(x, ids)
    return x.flatten(0, 2).index_select(0, at.flatten()).view(*at.shape[:4], -1, width)


def _scatter(
    sums: Float[Tensor, "B G U D"], ids: Int[Tensor, "B I M R N"], x: Float[Tensor, "B G M R L C"]
) -> None:
    """Undo `_gather`, for gradients."""
    sums.view(-1, sums.shape[3]).index_add_(0, _places(sums, ids).flatten(), x.reshape(-1, sums.shape[3]))


def _places(x: Float[Tensor, "B G U D"], ids: Int[Tensor, "B I M R N"]) -> Int[Tensor, "B G M R N"]:
    """Return the places of the chosen blocks among those of all sequences and heads; for -1, any place."""
    batch, groups, blocks = x.shape[:3]
    first = torch.arange(batch * groups, device=x.device).mul(blocks).view(batch, groups, 1, 1, 1)
    return ids.clamp(min=0) + first


def _attended(
    q: Float[Tensor, "B G P M Q C"],
    chunk_k: Float[Tensor, "B G M K C"],
    chunk_v: Float[Tensor, "B G M K C"],
    k: Float[Tensor, "B G M R L C"],
    v: Float[Tensor, "B G M R L C"],
    bias: Float[Tensor, "B I M R N"] | None,
    ids: Int[Tensor, "B I M R N"],
) -> Float[Tensor, "B G P M Q C"]:
    """Take one softmax; the last query sees the last key.  Heads that share keys are rows of one product."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    shared, length, rows, size = q.shape[2], q.shape[4], k.shape[3], k.shape[4] // max(1, ids.shape[4])
    chunk_k, chunk_v, k, v = (x.to(dtype) for x in (chunk_k, chunk_v, k, v))
    scaled = (
        q.to(dtype).unflatten(4, (rows, -1)).permute(0, 1, 3, 4, 2, 5, 6).flatten(4, 5) * q.shape[-1] ** -0.5
    )
    local = scaled.flatten(3, 4) @ chunk_k.mT
    t = torch.arange(length, device=q.device).view(rows, 1, -1).expand(-1, shared, -1).reshape(-1, 1)
    key = torch.arange(chunk_k.shape[3], device=q.device)
    local = local.masked_fill(key > t + chunk_k.shape[3] - length, -torch.inf).unflatten(3, (rows, -1))
    addend = torch.zeros_like(ids, dtype=dtype) if bias is None else bias.to(dtype)
    addend = addend.masked_fill(ids < 0, -torch.inf).repeat_interleave(size, dim=-1)
    weights = torch.cat([local, scaled @ k.mT + addend[..., None, :]], dim=-1).softmax(dim=-1)
    local, far = weights.split([chunk_k.shape[3], k.shape[4]], dim=-1)
    y = (local.flatten(3, 4) @ chunk_v).unflatten(3, (rows, -1)) + far @ v
    return y.unflatten(4, (shared, -1)).permute(0, 1, 4, 2, 3, 5, 6).flatten(4, 5).to(q.dtype)
