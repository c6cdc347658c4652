"""Attention to a chunk and to chosen blocks in Triton: blocks are read where they lie, and nothing is masked
that is not touched.

Logits x = q k / sqrt C (+ bias), weights p = exp(x - lse); lse, the log of the sum of the exponentials, is
kept for the backward pass, [B H T] in float32.  With dp = dy v^T and delta = the sum of dy y over C,

    dv = p^T dy,   ds = p (dp - delta),   dq = ds k / sqrt C,   dk = ds^T q / sqrt C,   dbias = the sum of ds.

A key's gradient comes from its own chunk and from every row that chose its block.  These are found by an
inverted list, a stable sort of the ids, which a program walks from end to end: no atomics, and the same bits
twice.  A block that all rows choose is so one long walk.

The floor: 4 C FLOPs a pair forward and 10 C backward, where a token has (chunk + 1) / 2 + N block_size pairs;
bytes are those of q, k, v and y, for what a chunk's tiles read again comes from the cache.  Rows that are
tokens share no keys: each reads its own N block_size, and multiplies without tensor cores.

B batch, H query heads, G key/value heads, I index sets (1 or G), T queries, S keys, C channels, R rows that
choose, N blocks.  Tensors come with the strides they have; the last must be 1.
"""

# pyright: reportArgumentType=false, reportCallIssue=false
# what is decorated with triton.jit is no Python, and its arguments are not what Python takes them for

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
import triton
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd import Function

from zoo.kernels.folding import fold, unfold
from zoo.kernels.launching import launch_options, unfit_here
from zoo.kernels.se_attention.triton_backward import backward_keys, backward_queries
from zoo.kernels.se_attention.triton_forward import forward
from zoo.kernels.span_retrieval import Chunks, fixed_chunks
from zoo.kernels.tiles import hopper, power_of_two, rows_last

PROVEN: str | None = None  # no card has run the gpu tests yet
WITHOUT_PRODUCTS: frozenset[str] = frozenset()  # kernels that have no use for tensor cores
LARGEST = {torch.float32: 64, torch.bfloat16: 128}  # channels of a head: more would spill registers


class Blocks(NamedTuple):
    """How one program is cut: `own` rows stay, `other` rows pass by."""

    own: int
    other: int
    num_warps: int
    num_stages: int


class Shape(NamedTuple):
    """What of a call is no tensor."""

    chunk_size: int
    begun: int  # tokens of the first chunk before the call
    block_size: int
    per_token: bool  # a row is a token


def blocks_of(kernel: str, bits: int, channels: int, per_token: bool) -> Blocks:
    """Static, so that a captured graph and a second run do the same.

    `python -m benchmarks.kernels_offline` says what each costs in registers; none may spill.
    """
    if kernel == "keys" and bits == 32:
        return Blocks(128, 16, 8, 2) if hopper() else Blocks(32, 16, 4, 1)
    if kernel == "keys":
        return Blocks(64, 32, 8, 2)
    if bits == 32:
        return Blocks(64, 16, 4 if channels <= 32 else 8, 2)
    if per_token or kernel == "queries":
        return Blocks(64, 64, 4 if channels <= 32 else 8, 2)
    return Blocks(128, 64 if channels <= 64 else 32, 8, 3)


def se_attention_triton(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B G S C"],
    v: Float[Tensor, "B G S C"],
    blocks: Int[Tensor, "#B I R N"] | None,
    bias: Float[Tensor, "#B I R N"] | None,
    chunks: Chunks,
    block_size: int,
) -> Float[Tensor, "B H T C"]:
    """What `se_attention_reference` says, where chunks have one size; y has the dtype of q."""
    (batch, _, length), rows = q.shape[:3], len(chunks.starts)
    if blocks is None:
        blocks = torch.empty(batch, 1, rows, 0, dtype=torch.int32, device=q.device)
    shape = Shape(chunks.size or length, chunks.begun, block_size, blocks.shape[2] != rows)
    ids = blocks.to(torch.int32).expand(batch, -1, -1, -1).contiguous()
    bias = None if bias is None else bias.float().expand(batch, -1, -1, -1).contiguous()
    return _Attention.apply(rows_last(q), rows_last(k), rows_last(v), ids, bias, *shape)[0]


def unfit(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    blocks: Tensor | None,
    bias: Tensor | None,
    chunks: Chunks,
    block_size: int,
) -> str | None:
    """Why these inputs cannot go through the kernel, in words; None: they can."""
    del bias, block_size
    if chunks.size is None:
        return "chunks of several sizes (chunk_sampling=per_chunk) need a mask over all pairs"
    if not q.dtype == k.dtype == v.dtype or q.dtype not in LARGEST:
        return f"q, k and v must all be float32 or bfloat16, and are {q.dtype}, {k.dtype} and {v.dtype}"
    if q.shape[-1] > LARGEST[q.dtype]:
        return f"head_dim (={q.shape[-1]}) must be at most {LARGEST[q.dtype]} in {q.dtype}"
    if blocks is not None and blocks.shape[1] not in (1, k.shape[1]):
        return f"index sets (={blocks.shape[1]}) must be 1 or one a key/value head (={k.shape[1]})"
    return unfit_here(q)


def cases(few: bool) -> Iterator[tuple[str, torch.dtype, Callable[[], None]]]:
    """Calls that reach every kernel in every configuration, on "meta"; few: a quick choice of them."""
    widths = (64,) if few else (16, 32, 64, 128)
    for width, per_token, biased, dtype in product(widths, (False, True), (False, True), LARGEST):
        if width > LARGEST[dtype] or (not biased and width != 64) or (few and per_token != biased):
            continue
        whole = torch.empty(2, 8192, 8, width, dtype=dtype, device="meta").transpose(1, 2)
        q, k, v = (part.requires_grad_() for part in whole.split([4, 2, 2], 1))
        chunks = fixed_chunks(2048, 0, 8192, torch.device("meta"))
        ids = torch.empty(2, 2, 8192 if per_token else 4, 8, dtype=torch.int64, device="meta")
        bias = torch.empty(ids.shape, device="meta").requires_grad_() if biased else None
        words = f"C {width}, a {'token' if per_token else 'chunk'}{', bias' if biased else ''}"
        yield words, dtype, partial(_both_ways, [q, k, v, ids, bias, chunks, 32])


def _both_ways(inputs: list[Any]) -> None:
    se_attention_triton(*inputs).sum().backward()


class _Attention(Function):
    @staticmethod
    def forward(  # pyright: ignore
        q: Tensor, k: Tensor, v: Tensor, ids: Tensor, bias: Tensor | None, *shape: Any
    ) -> tuple[Tensor, Tensor]:
        y, lse = _by_time(q), q.new_empty(q.shape[:-1], dtype=torch.float32)
        at = Shape(*shape)
        cut = blocks_of("forward", 8 * q.element_size(), power_of_two(q.shape[-1]), at.per_token)
        forward[_by_queries(q, at, cut)](
            *(q, *q.stride()[:3], k, *k.stride()[:3], v, *v.stride()[:3], ids, _or(bias, lse)),
            *(y, *y.stride()[:3], lse, *_numbers(q, k, ids, at)),
            **_constants(q, bias, at, cut),
        )
        return y, lse

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.shape = inputs[5:]
        ctx.save_for_backward(*inputs[:5], *output)

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, _: None) -> tuple[Tensor | None, ...]:  # pyright: ignore
        if dy is None:
            return (None,) * 9
        dq, dk, dv, dbias = _Backward.apply(*ctx.saved_tensors, dy, *ctx.shape)
        return dq, dk, dv, None, dbias if ctx.needs_input_grad[4] else None, *(None,) * 4

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *inputs: Any) -> tuple:  # pyright: ignore
        y, lse = _Attention.apply(*fold(info.batch_size, in_dims, inputs))
        return unfold(info.batch_size, (y, lse)), (0, 0)


class _Backward(Function):
    """A Function of its own, so that it has a batching rule too."""

    @staticmethod
    def forward(  # pyright: ignore
        q: Tensor,
        k: Tensor,
        v: Tensor,
        ids: Tensor,
        bias: Tensor | None,
        y: Tensor,
        lse: Tensor,
        dy: Tensor,
        *shape: Any,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        at, dy, delta, bits = Shape(*shape), rows_last(dy), torch.empty_like(lse), 8 * q.element_size()
        dq, dk, dv = _by_time(q), _by_time(k), _by_time(v)
        inputs = (q, *q.stride()[:3], k, *k.stride()[:3], v, *v.stride()[:3], dy, *dy.stride()[:3])
        numbers = _numbers(q, k, ids, at)
        cut = blocks_of("queries", bits, power_of_two(q.shape[-1]), at.per_token)
        shares = _shares(q, ids, bias, at, cut.own)
        backward_queries[_by_queries(q, at, cut)](
            *(*inputs, ids, _or(bias, lse), y, *y.stride()[:3], lse, delta, dq, *dq.stride()[:3], shares),
            *(*numbers, shares.shape[3]),
            **_constants(q, bias, at, cut),
        )
        cut = blocks_of("keys", bits, power_of_two(q.shape[-1]), at.per_token)
        backward_keys[k.shape[0] * k.shape[1], triton.cdiv(k.shape[2], cut.own)](
            *(*inputs, *_inverted(ids, k.shape[2] // at.block_size), _or(bias, lse), lse, delta),
            *(dk, *dk.stride()[:3], dv, *dv.stride()[:3], *numbers, k.shape[2] // at.block_size),
            **_constants(q, bias, at, cut),
        )
        if bias is None:
            return dq, dk, dv, q.new_zeros(q.shape[0])
        return dq, dk, dv, shares.sum((3, 5)).unflatten(1, (ids.shape[1], -1)).sum(2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        del ctx, inputs, output

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> None:  # pyright: ignore
        raise NotImplementedError("se_attention in Triton has first derivatives only: kernels=reference.")

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *inputs: Any) -> tuple:  # pyright: ignore
        grads = _Backward.apply(*fold(info.batch_size, in_dims, inputs))
        return unfold(info.batch_size, grads), (0, 0, 0, 0)


def _by_time(x: Float[Tensor, "B H T C"]) -> Float[Tensor, "B H T C"]:
    """Empty, with the heads of a token side by side in memory: what comes before and after has them so."""
    batch, heads, length, size = x.shape
    return x.new_empty(batch, length, heads, size).transpose(1, 2)


def _or(bias: Tensor | None, other: Tensor) -> Tensor:
    """Something to point at."""
    return other if bias is None else bias


def _by_queries(q: Tensor, at: Shape, cut: Blocks) -> tuple[int, int]:
    """Tiles begin where the first chunk does; those before the first query are left out."""
    tiles = triton.cdiv(at.begun + q.shape[2], cut.own) - at.begun // cut.own
    return q.shape[0] * q.shape[1], tiles


def _numbers(q: Tensor, k: Tensor, ids: Tensor, at: Shape) -> tuple[float, ...]:
    sizes = (q.shape[1], k.shape[1], ids.shape[1], q.shape[2], k.shape[2], *ids.shape[2:])
    return *sizes, at.chunk_size, at.begun, at.block_size, q.shape[3] ** -0.5


def _constants(q: Tensor, bias: Tensor | None, at: Shape, cut: Blocks) -> dict[str, Any]:
    return {
        **{"C": q.shape[-1], "CS": power_of_two(q.shape[-1])},
        **{"PER_TOKEN": at.per_token, "BIASED": bias is not None, "OWN": cut.own, "OTHER": cut.other},
        **launch_options(cut.num_warps, cut.num_stages),
    }


def _shares(q: Tensor, ids: Tensor, bias: Tensor | None, at: Shape, own: int) -> Float[Tensor, "B H R P N L"]:
    """What the P tiles of queries that a row may lie in will add to the gradient of its biases."""
    if bias is None:
        return q.new_zeros((1,) * 6, dtype=torch.float32)
    tiles, tokens = (1, 1) if at.per_token else (triton.cdiv(at.chunk_size, own) + 1, at.block_size)
    return q.new_zeros(*q.shape[:2], ids.shape[2], tiles, ids.shape[3], tokens, dtype=torch.float32)


def _inverted(
    ids: Int[Tensor, "B I R N"], num_blocks: int
) -> tuple[Int[Tensor, "B I R*N"], Int[Tensor, "B I R*N"], Int[Tensor, "B I U+1"]]:
    """The chosen blocks in order, the entry (row N + place) of each, and where each block begins."""
    blocks, entries = ids.flatten(2).sort(dim=-1, stable=True)
    edges = torch.arange(num_blocks + 1, dtype=ids.dtype, device=ids.device)
    edges = edges.expand(*ids.shape[:2], -1).contiguous()
    return blocks, entries.to(torch.int32), torch.searchsorted(blocks, edges, out_int32=True)
