"""SE-Attn: attention inside chunks, plus retrieved blocks of the past (Expansion Span, arXiv 2412.13328).

Every complete block of `block_size` tokens has a summary (attention inside the block, averaged); a query
scores the summaries, and the keys and values of the `top_k` best blocks that end before the query's chunk
join the chunk's own.  Where we differ from the paper on purpose:

- Its score sums all queries of a chunk, later ones too: the choice leaks the future and no decoder can
  follow it.  That is `selection="chunk"` here (not causal, no exact decoding); the default scores with the
  token's own query.
- block_size must divide every chunk size, so that no token falls between chunk and retrievable blocks.
- Block choice is made in float32 at least, and ties go to the lowest block.

This is no fixed-size memory: any block may be retrieved later, so K and V of all tokens stay.  What it saves
is `touched`.  B batch, T time, D model width, H heads, G key/value heads, I index sets (1 or G), C channels.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from zoo.checks import at_least, multiple, one_of
from zoo.kernels import span_retrieval as spans
from zoo.kernels.attention import scaled_dot_product
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.projections import QueryKeyValue
from zoo.state import StateSize

Selection = Literal["token", "first", "prefix", "prev", "chunk", "random", "none"]
PER_TOKEN = ("token", "prefix")  # choose anew for every token; the others once a chunk
FROZEN = ("first", "prev")  # the choice of an open chunk cannot be made again from what is kept
SUMMED = ("prefix", "prev")
UNSCORED = ("random", "none")


class State(NamedTuple):
    """None where the selection reads no such thing.

    At the end of a chunk `prefix` keeps a query sum that the next chunk begins anew (the size stays simple).
    """

    k: Float[Tensor, "B G S C"] | None  # of all tokens; for selection none of the open chunk
    v: Float[Tensor, "B G S C"] | None
    summaries: Float[Tensor, "B H U C"] | None  # of the complete blocks
    queries: Float[Tensor, "B H R C"] | None  # of the incomplete block
    query_sum: Float[Tensor, "B H C"] | None  # of the open chunk (prev: of the last one where none is open)
    blocks: Int[Tensor, "B I N"] | None  # chosen for the open chunk
    seen: int

    selects = ("summaries", "queries", "query_sum")  # act through the choice alone: no gradient passes it


EMPTY = State(None, None, None, None, None, None, 0)


class SEAttn(Mixer[State]):
    """Settings beyond the paper's chunk size, block size and top-k:

    chunk_size: a list is a set of sizes to draw from in training, one a forward pass or one a chunk
        (`chunk_sampling`); the draws are a function of `chunk_seed` and the number of passes so far, which
        is part of the checkpoint.  `extend` and evaluation use `eval_chunk_size` (default: `chunk_size`).
    selection: the query that scores the blocks for token t of a chunk.  token: t's own; first: the chunk's
        first; prefix: the sum over the chunk up to t; prev: the sum over the chunk before; chunk: the sum
        over the whole chunk (the paper; not causal); random: a draw that depends on (`retrieval_seed`,
        chunk) alone, the same in every sequence and, unless their seeds differ, every layer: it reads no
        summary or query, so it keeps K and V alone; none: no retrieval (SE-Attn-NoMem), as is top_k=0.
    retrieval: one choice for all heads (the paper), or one per group of heads that share keys.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int = 1,
        num_kv_heads: int | None = None,
        chunk_size: int | Sequence[int] = 16,
        block_size: int = 4,
        top_k: int = 2,
        selection: Selection = "token",
        retrieval: Literal["shared", "per_group"] = "shared",
        chunk_sampling: Literal["fixed", "per_forward", "per_chunk"] = "fixed",
        eval_chunk_size: int | None = None,
        chunk_seed: int = 0,
        retrieval_seed: int = 0,
        position: Literal["none", "rope"] = "none",
        rope_base: float = 10000.0,
        rope_fraction: float = 1.0,
        bias: bool = False,
    ) -> None:
        super().__init__()
        self.d_model, self.block_size, self.top_k = d_model, block_size, top_k
        self.selection = selection if top_k else "none"
        self.chunk_sizes = [chunk_size] if isinstance(chunk_size, int) else [*chunk_size]
        at_least("number of sizes in chunk_size", len(self.chunk_sizes), 1)
        self.eval_chunk_size = self.chunk_sizes[0] if eval_chunk_size is None else eval_chunk_size
        self.chunk_sampling, self.chunk_seed, self.retrieval_seed = chunk_sampling, chunk_seed, retrieval_seed
        self.passes = 0  # training passes so far: how far the chunk sizes are drawn
        self._check(selection, retrieval, position, eval_chunk_size)
        self.causal = self.exact_decode = self.selection != "chunk"
        self.qkv = QueryKeyValue(d_model, num_heads, num_kv_heads, position, rope_base, rope_fraction, bias)
        self.index_sets = self.qkv.num_kv_heads if retrieval == "per_group" else 1
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)

    def _check(self, selection: str, retrieval: str, position: str, eval_chunk_size: int | None) -> None:
        one_of("selection", selection, get_args(Selection))
        one_of("retrieval", retrieval, ("shared", "per_group"))
        one_of("position", position, ("none", "rope"))
        one_of("chunk_sampling", self.chunk_sampling, ("fixed", "per_forward", "per_chunk"))
        at_least("top_k", self.top_k, 0)
        for size in self.chunk_sizes:
            multiple("chunk_size", size, "block_size", self.block_size)
        multiple("eval_chunk_size", self.eval_chunk_size, "block_size", self.block_size)
        if len(self.chunk_sizes) > 1 and (self.chunk_sampling == "fixed" or eval_chunk_size is None):
            raise ValueError(
                f"chunk_size (={self.chunk_sizes}) has several sizes: set chunk_sampling to per_forward or "
                f"per_chunk, and eval_chunk_size (={eval_chunk_size}) to the one size for evaluation."
            )

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        first = 0 if state is None else state.seen
        return self._mix(x, state, spans.fixed_chunks(self.eval_chunk_size, first, x.shape[1], x.device))

    def forward(self, x: Seq) -> Seq:
        if not self.training:
            return self.extend(x)[0]
        self.passes += 1
        draw = (self.chunk_sizes, self.chunk_sampling == "per_chunk", self.chunk_seed, self.passes)
        return self._mix(x, None, spans.drawn_chunks(*draw, x.shape[1], x.device))[0]

    def get_extra_state(self) -> Tensor:
        return torch.tensor(self.passes)

    def set_extra_state(self, state: Tensor) -> None:
        self.passes = int(state)

    def _mix(self, x: Seq, state: State | None, chunks: spans.Chunks) -> tuple[Seq, State]:
        past = EMPTY if state is None else state
        q, k, v = self.qkv(x, past.seen)  # a key keeps the turn of its own position
        if past.k is not None and past.v is not None:
            k, v = torch.cat([past.k, k], dim=2), torch.cat([past.v, v], dim=2)
        seen = past.seen + x.shape[1]
        with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
            summaries, queries = self._summaries(q, k, v, past)
            chosen, query_sum = self._choose(q, summaries, chunks, past)
            blocks = self._frozen(chosen, chunks, seen)
        y = self._attend(q, k, v, chosen, chunks)
        keep = seen % self.eval_chunk_size if self.selection == "none" else seen
        k, v = (part[:, :, part.shape[2] - keep :] for part in (k, v))
        return y, State(k, v, summaries, queries, query_sum, blocks, seen)

    def _summaries(self, q: Tensor, k: Tensor, v: Tensor, past: State) -> tuple[Tensor | None, Tensor | None]:
        """The summaries of all complete blocks, and the queries of the incomplete one."""
        if self.selection in UNSCORED:
            return None, None
        q, k, v = (precise(part) for part in (q, k, v))
        q = q if past.queries is None else torch.cat([past.queries, q], dim=2)
        first, whole = k.shape[2] - q.shape[2], q.shape[2] - q.shape[2] % self.block_size
        k, v = (self._for_heads(part[:, :, first : first + whole]) for part in (k, v))
        new = spans.summarise(q[:, :, :whole], k, v, self.block_size)
        return new if past.summaries is None else torch.cat([past.summaries, new], dim=2), q[:, :, whole:]

    def _choose(
        self, q: Tensor, summaries: Tensor | None, chunks: spans.Chunks, past: State
    ) -> tuple[Bool[Tensor, "B I T U"] | None, Tensor | None]:
        """The blocks that each new token sees (None: no retrieval), and the query sum to carry on."""
        if self.selection == "none":
            return None, None
        query_sum, per_token = None, self.selection in PER_TOKEN
        if summaries is None:
            num_blocks = (past.seen + q.shape[2]) // self.block_size
            scores = spans.random_scores(self.retrieval_seed, self.index_sets, chunks.numbers, num_blocks)
        else:
            rows, query_sum = spans.scoring_queries(self.selection, precise(q), past.query_sum, chunks)
            scores = spans.relevance(rows, summaries, self.index_sets)
        starts = chunks.starts[chunks.of_token] if per_token else chunks.starts
        chosen = spans.chosen_blocks(scores, starts, self.block_size, self.top_k)
        if per_token:
            return chosen, query_sum
        if past.blocks is not None and past.blocks.shape[-1]:
            frozen = spans.from_ids(past.blocks, chosen.shape[-1])
            chosen = torch.cat([frozen[:, :, None], chosen[:, :, 1:]], dim=2)
        return chosen.index_select(2, chunks.of_token), query_sum

    def _frozen(self, chosen: Tensor | None, chunks: spans.Chunks, seen: int) -> Tensor | None:
        if chosen is None or self.selection not in FROZEN:
            return None
        is_open = seen % self.eval_chunk_size > 0
        count = min(self.top_k, chunks.last_start // self.block_size) if is_open else 0
        return spans.block_ids(chosen[:, :, -1], count)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, chosen: Tensor | None, chunks: spans.Chunks) -> Seq:
        """Each token on its blocks and, causally, on its own chunk: one softmax under one mask."""
        mask = spans.span_mask(chosen, chunks, k.shape[2], self.block_size)
        mask = self._for_heads(mask) if self.index_sets > 1 and chosen is not None else mask
        y = scaled_dot_product(q, self._for_heads(k), self._for_heads(v), mask)
        return self.out_proj(y.transpose(1, 2).flatten(2))

    def _for_heads(self, per_group: Tensor) -> Tensor:
        repeats = self.qkv.num_heads // per_group.shape[1]
        return per_group if repeats == 1 else per_group.repeat_interleave(repeats, dim=1)

    def state_size(self, seq_len: int) -> StateSize:
        """Keys and values, summaries, queries of the incomplete block; `touched` spreads over a chunk's
        tokens the scoring that is done once a chunk.
        """
        kv, open_chunk = 2 * self.qkv.kv_dim, seq_len % self.eval_chunk_size
        if self.selection == "none":
            return StateSize(paper=None, resident=kv * open_chunk, touched=kv * open_chunk)
        retrieved = min(self.top_k, (seq_len - open_chunk) // self.block_size)
        resident, touched = kv * seq_len, kv * (open_chunk + retrieved * self.block_size)
        if self.selection != "random":
            blocks, rest = divmod(seq_len, self.block_size)
            resident += self.d_model * (blocks + rest + (self.selection in SUMMED and seq_len > 0))
            every = 1 if self.selection in PER_TOKEN else self.eval_chunk_size
            touched += -(-self.d_model * blocks // every)
        frozen = self.index_sets * retrieved if self.selection in FROZEN and open_chunk else 0
        return StateSize(None, resident, touched, frozen)

    def visible(self, seq_len: int) -> Bool[Tensor, "T T"]:
        if self.selection not in UNSCORED:
            return super().visible(seq_len)
        chunks = spans.fixed_chunks(self.eval_chunk_size, 0, seq_len, torch.device("cpu"))
        chosen, _ = self._choose(torch.empty(1, 1, seq_len, 1), None, chunks, EMPTY)
        mask = spans.span_mask(chosen, chunks, seq_len, self.block_size)
        return mask if chosen is None else mask.flatten(0, 1).any(0)


def precise(x: Tensor) -> Tensor:
    """Float32 at least, for a rounded score chooses another block; without the gradient, that even a view
    made under no_grad would keep.
    """
    return x.detach().to(torch.promote_types(x.dtype, torch.float32))
