"""SE-Attn attends inside chunks and to retrieved blocks of the past (Expansion Span, arXiv 2412.13328).

Every complete block of `block_size` tokens has a summary (attention inside the block, averaged); a query
scores the summaries, and the keys and values of the `top_k` best blocks that end before the query's chunk
join the chunk's own.  Where we differ from the paper on purpose:

- Its score sums all queries of a chunk, later ones too: the choice leaks the future and no decoder can
  follow it.  That is `selection="chunk"` here (not causal, no exact decoding); the default scores with the
  token's own query.
- block_size must divide every chunk size, so that no token falls between chunk and retrievable blocks.
- Block choice is made in float32 at least, and ties go to the lowest block.

The memory has no fixed size: any block may be retrieved later, so that K and V of all tokens stay.  Retrieval
lowers only `touched`.  With `max_blocks` the memory has a fixed size.

Where the chunks are the blocks and each head scores them by their mean key, this is MoBA (arXiv 2502.13189).

B batch, T time, S tokens kept, D model width, H heads, G key/value heads, I index sets (1 or G), C channels.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple, one_of
from zoo.kernels.se_attention import se_attention
from zoo.kernels.span_retrieval import Chunks, drawn_chunks, fixed_chunks
from zoo.mixers.base import Seq
from zoo.mixers.cache import append
from zoo.mixers.projections import AttentionHeads
from zoo.mixers.span_choice import Memory, SpanChoice
from zoo.mixers.span_rule import Selection, SpanRule, Summary
from zoo.mixers.state import StateSize

SAMPLING = ("fixed", "per_forward", "per_chunk")


class ChunkSizes(nn.Module):
    """Cut a sequence into chunks, in training and after.

    sizes: one, or several to draw from in training, once a forward pass or once a chunk (`sampling`).

    The draws are a function of `seed` and the number of earlier passes that drew, which the checkpoint keeps.
    evaluation: the one size of evaluation and decoding (None: the only one in `sizes`).
    """

    def __init__(
        self, sizes: int | Sequence[int], sampling: str, evaluation: int | None, seed: int, block_size: int
    ) -> None:
        super().__init__()
        self.sizes = [sizes] if isinstance(sizes, int) else [*sizes]
        at_least("number of sizes in chunk_size", len(self.sizes), 1)
        one_of("chunk_sampling", sampling, SAMPLING)
        for size in self.sizes:
            multiple("chunk_size", size, "block_size", block_size)
        if len(self.sizes) > 1 and (sampling == "fixed" or evaluation is None):
            raise ValueError(
                f"chunk_size (={self.sizes}) has several sizes: set chunk_sampling to per_forward or "
                f"per_chunk, and eval_chunk_size (={evaluation}) to the one size for evaluation."
            )
        self.evaluation = self.sizes[0] if evaluation is None else evaluation
        multiple("eval_chunk_size", self.evaluation, "block_size", block_size)
        self.sampling, self.seed = sampling, seed
        self.passes = 0  # training passes that drew

    def forward(self, x: Seq) -> Chunks:
        """Return the chunks of the next training pass over `x`.  With one size, passes need no counting."""
        if len(self.sizes) == 1:
            return fixed_chunks(self.sizes[0], 0, x.shape[1], x.device)
        self.passes += 1
        draw = (self.sizes, self.sampling == "per_chunk", self.seed, self.passes)
        return drawn_chunks(*draw, x.shape[1], x.device)

    def get_extra_state(self) -> Tensor:
        """Return the number of passes that drew, for the checkpoint."""
        return torch.tensor(self.passes)

    def set_extra_state(self, state: Tensor) -> None:
        """Take the number of passes from a checkpoint."""
        self.passes = int(state)


class State(NamedTuple):
    k: Float[Tensor, "B G S C"]  # of the open chunk and of the blocks that may be retrieved later
    v: Float[Tensor, "B G S C"]
    memory: Memory
    offset: int

    selects = ("summaries", "queries", "query_sum")  # they act through the choice alone: no gradient


class SEAttn(AttentionHeads[State]):
    """Attend inside chunks of the sequence, and to a few retrieved blocks of the past.

    The settings beyond chunk size, block size and top-k:
    chunk_size, chunk_sampling, eval_chunk_size, chunk_seed: see `zoo.mixers.se_attn`.
    selection, summary, max_blocks, gate, score_rope: see `zoo.mixers.span_rule`.
    retrieval: one choice for all heads (the paper), or one per group of heads that share keys.
    retrieval_seed: of selection=random.
    heads: see `zoo.mixers.projections`.
    """

    def __init__(
        self,
        *,
        d_model: int,
        chunk_size: int | Sequence[int],
        block_size: int = 4,
        top_k: int = 2,
        selection: Selection,
        summary: Summary = "attn_value",
        score_rope: Literal["rotated", "unrotated"] = "rotated",
        retrieval: Literal["shared", "per_group"] = "shared",
        max_blocks: int | None = None,
        gate: Literal["none", "bias"] = "none",
        chunk_sampling: Literal["fixed", "per_forward", "per_chunk"] = "fixed",
        eval_chunk_size: int | None = None,
        chunk_seed: int = 0,
        retrieval_seed: int = 0,
        **heads: Any,
    ) -> None:
        super().__init__(d_model=d_model, **heads)
        one_of("retrieval", retrieval, ("shared", "per_group"))
        rule = SpanRule(block_size, top_k, selection, summary, max_blocks, gate, score_rope, retrieval_seed)
        self.chunks = ChunkSizes(chunk_size, chunk_sampling, eval_chunk_size, chunk_seed, block_size)
        self.index_sets = self.qkv.num_kv_heads if retrieval == "per_group" else 1
        self.choice = SpanChoice(self.qkv, self.index_sets, rule)
        self.out_proj = self.last_projection()
        self.rule, self.block_size, self.eval_chunk_size = rule, block_size, self.chunks.evaluation
        self.capacity, self.kv_dim = rule.capacity, self.qkv.kv_dim
        self.summary_dim, self.query_dim = self.choice.summaries.size, self.choice.summaries.query_size
        self.sum_dim = d_model if rule.sums else 0
        self.causal = self.exact_decode = rule.causal

    def forward(self, x: Seq) -> Seq:
        """Draw chunk sizes in training; evaluate as `extend` does."""
        return self._mix(x, None, self.chunks(x))[0] if self.training else self.extend(x)[0]

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Attend inside chunks of the one evaluation size; keep what later chunks may retrieve."""
        first = 0 if state is None else state.offset
        return self._mix(x, state, fixed_chunks(self.eval_chunk_size, first, x.shape[1], x.device))

    def _mix(self, x: Seq, state: State | None, chunks: Chunks) -> tuple[Seq, State]:
        first = 0 if state is None else state.offset
        q, k, v = self.qkv(x, first)  # a key keeps the turn of its own position
        if state is not None:
            k, v = append(state.k, k, dim=2), append(state.v, v, dim=2)
        past = Memory() if state is None else state.memory
        choice, memory = self.choice(self.qkv, q, k, v, past, chunks)
        y = se_attention(q, k, v, choice.blocks, choice.bias, chunks, self.block_size)
        y = self.out_proj(y.transpose(1, 2).flatten(2))
        return y, self._state_after(k, v, memory, first + x.shape[1])

    def _state_after(self, k: Tensor, v: Tensor, memory: Memory, offset: int) -> State:
        tokens = self._token_count(offset)
        dropped = k.shape[2] - tokens
        if dropped:
            k, v = k[:, :, dropped:], v[:, :, dropped:]
        return State(
            k, v, memory.without(dropped // self.block_size, offset % self.eval_chunk_size > 0), offset
        )

    def _token_count(self, offset: int) -> int:
        return min(offset, self.capacity * self.block_size + offset % self.eval_chunk_size)

    def state_size(self, seq_len: int) -> StateSize:
        """Count what may be retrieved; `touched` includes a step's share of the scoring of a chunk."""
        tokens, open_chunk = self._token_count(seq_len), seq_len % self.eval_chunk_size
        summaries = self.summary_dim * (tokens // self.block_size)
        resident = 2 * self.kv_dim * tokens + summaries
        resident += self.query_dim * (seq_len % self.block_size) + self.sum_dim * min(seq_len, 1)
        retrieved = self.rule.retrieved(seq_len - open_chunk)
        every = 1 if self.rule.per_token else self.eval_chunk_size
        touched = 2 * self.kv_dim * (open_chunk + retrieved * self.block_size) - (-summaries // every)
        frozen = self.index_sets * retrieved if self.rule.freezes and open_chunk else 0
        return StateSize(None, resident, touched, frozen)

    def read_until(self, seq_len: int) -> Int[Tensor, "T"]:
        """Return the end of the last chunk that may retrieve a token's block."""
        if self.rule.scores and self.rule.selection in ("prev", "chunk"):
            return super().read_until(seq_len)  # the choice reads tokens that attention may not
        blocks = self.capacity if self.rule.scores else 0
        last_start = (torch.arange(seq_len) // self.block_size + blocks) * self.block_size
        return (last_start // self.eval_chunk_size + 1) * self.eval_chunk_size - 1

    def visible(self, wanted: Bool[Tensor, "*R T"]) -> Bool[Tensor, "*R T"]:
        """Return the inputs in view, which have gaps between random blocks."""
        near, length, size = super().visible(wanted), wanted.shape[-1], self.eval_chunk_size
        if not self.rule.retrieves or self.rule.scores:
            return near
        chunks = fixed_chunks(size, 0, length, torch.device("cpu"))
        wants = F.pad(wanted, (0, -length % size)).unflatten(-1, (-1, size)).any(-1)
        some = wants.reshape(-1, len(chunks.starts)).any(0)
        drawn = self.choice.drawn(chunks._replace(numbers=chunks.numbers[some], starts=chunks.starts[some]))
        blocks = (wants[..., some].float() @ drawn.float() > 0).repeat_interleave(self.block_size, dim=-1)
        return near | F.pad(blocks, (0, length - blocks.shape[-1]))
