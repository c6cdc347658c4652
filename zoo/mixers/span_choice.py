"""Choose the past blocks that a chunk's tokens retrieve, and keep what later choices need.

B batch, T new tokens, S tokens kept, H query heads, G key/value heads, I index sets (1 or G), C channels per
head, R rows that choose (one per token or one per chunk), U blocks kept, N blocks chosen.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from zoo.kernels.block_choice import block_choice
from zoo.kernels.common.heads import per_query_head
from zoo.kernels.span_retrieval.chunks import Chunks
from zoo.kernels.span_retrieval.scores import (
    gate_bias,
    parts_of_rows,
    random_scores,
    relevance,
    scoring_queries,
)
from zoo.kernels.span_retrieval.selection import admissible_blocks, best_ids, from_ids
from zoo.mixers.block_summaries import BlockSummaries
from zoo.mixers.cache import append
from zoo.mixers.projections import QueryKeyValue
from zoo.mixers.span_rule import SpanRule


class Memory(NamedTuple):
    """Keep the tensors that later choices need; a field is None where the selection does not read it.

    At a chunk's end `prefix` keeps its query sum, though the next chunk begins a new one: a simpler size.
    """

    summaries: Float[Tensor, "B H U C"] | None = None  # of the complete blocks; mean_key: "B G U C"
    queries: Float[Tensor, "B H W C"] | None = None  # of the incomplete block
    query_sum: Float[Tensor, "B H C"] | None = None  # of the open chunk (prev: of the last one at its end)
    blocks: Int[Tensor, "B I N"] | None = None  # chosen for the open chunk, counted from the first one kept

    def without(self, dropped: int, is_open: bool) -> "Memory":
        """Drop the first `dropped` blocks, and the choice of a chunk that has closed."""
        summaries = self.summaries
        if summaries is not None and dropped:
            summaries = summaries[:, :, dropped:]
        blocks = self.blocks if self.blocks is None or is_open else self.blocks[..., :0]
        return self._replace(summaries=summaries, blocks=None if blocks is None else blocks - dropped)


class Choice(NamedTuple):
    blocks: Int[Tensor, "B I R N"] | None  # counted from the first one kept, -1 for none; None: no retrieval
    bias: Float[Tensor, "B I R N"] | None  # on the logits of a retrieved block's tokens


class Scoring(NamedTuple):
    """Hold the queries and summaries by which blocks are scored; a row is as in Choice."""

    queries: Float[Tensor, "B H R C"]
    summaries: Float[Tensor, "B _ U C"]  # H heads, or G with mean_key


class View(NamedTuple):
    chunks: Chunks
    first_block: int  # number of the first block that is kept
    num_blocks: int  # blocks that are kept and complete


class SpanChoice(nn.Module):
    """Choose for each token or chunk the blocks of the past with the highest scores.
    Scores are in float32 at least, since rounded ones choose other blocks.  Ties go to the lowest block.
    Without a gate no gradient passes.
    """

    def __init__(self, qkv: QueryKeyValue, index_sets: int, rule: SpanRule) -> None:
        super().__init__()
        self.rule, self.index_sets = rule, index_sets
        self.num_heads, self.d_model = qkv.num_heads, qkv.proj.in_features
        self.summaries = BlockSummaries(qkv, rule)

    def forward(
        self,
        qkv: QueryKeyValue,
        q: Float[Tensor, "B H T C"],
        k: Float[Tensor, "B G S C"],
        v: Float[Tensor, "B G S C"],
        past: Memory,
        chunks: Chunks,
    ) -> tuple[Choice, Memory]:
        """Return the choice and the next memory.  k, v: of all tokens kept, new ones included."""
        if not self.rule.retrieves:
            return Choice(None, None), Memory()
        size, open_tokens = self.rule.block_size, chunks.first % self.rule.block_size
        summarised = k.shape[2] - q.shape[2] - open_tokens
        view = View(chunks, (chunks.first - open_tokens - summarised) // size, k.shape[2] // size)
        with (
            torch.set_grad_enabled(self.rule.gated and torch.is_grad_enabled()),
            torch.autocast(q.device.type, enabled=False),
        ):
            if not self.rule.scores:
                return Choice(self._drawn(view), None), Memory()
            q, k, v = q, k[:, :, summarised:], v[:, :, summarised:]
            if not self.rule.gated:  # under no_grad even a view would keep its gradient
                q, k, v = q.detach(), k.detach(), v.detach()
            scoring, memory = self._scoring(qkv, q, k, v, past, chunks)
            return self._chosen(scoring, view, memory, past.blocks)

    def _scoring(
        self, qkv: QueryKeyValue, q: Tensor, k: Tensor, v: Tensor, past: Memory, chunks: Chunks
    ) -> tuple[Scoring, Memory]:
        """Return the queries and summaries that score blocks.  k, v: from the incomplete block on."""
        if self.rule.score_rope == "unrotated":
            offsets = [chunks.first + q.shape[2] - part.shape[2] for part in (q, k)]
            q, k = (qkv.turned_back(_precise(part), at) for part, at in zip((q, k), offsets, strict=True))
            v = _precise(v)
        summaries, queries = self.summaries(qkv, q, k, v, past.queries)
        if past.summaries is not None:
            summaries = append(past.summaries, summaries, dim=2)
        asking, query_sum = scoring_queries(self.rule.selection, q, past.query_sum, chunks)
        return Scoring(asking, summaries), Memory(summaries, queries, query_sum)

    def _chosen(
        self, scoring: Scoring, view: View, memory: Memory, frozen: Tensor | None
    ) -> tuple[Choice, Memory]:
        """Choose blocks.  frozen: ids that the first chunk chose before the call; none if it begins now."""
        chunks, rule, bias = view.chunks, self.rule, None
        starts = chunks.starts[chunks.of_token] if rule.per_token else chunks.starts
        if rule.gated:
            blocks, bias = self._gated(scoring, view, starts)
        else:
            sizes = self.index_sets, rule.block_size, view.first_block, rule.top_k, rule.max_blocks
            blocks = block_choice(*scoring, starts, *sizes)
        if frozen is not None and frozen.shape[-1]:
            first = F.pad(frozen, (0, blocks.shape[-1] - frozen.shape[-1]), value=-1)
            blocks = torch.cat([first[:, :, None], blocks[:, :, 1:]], dim=2)
        if rule.freezes:
            count = rule.retrieved(chunks.last_start)
            ids = blocks[:, :, -1].sort(dim=-1).values
            memory = memory._replace(blocks=ids[..., ids.shape[-1] - count :])
        return Choice(blocks, bias), memory

    def _drawn(self, view: View) -> Int[Tensor, "1 I R N"]:
        last, ids, (numbers, starts, *_) = view.first_block + view.num_blocks, [], view.chunks
        for rows in parts_of_rows(len(starts), view.num_blocks):
            drawn = random_scores(self.rule.seed, self.index_sets, numbers[rows], last)
            admissible = self._admissible(starts[rows], view)
            ids.append(best_ids(drawn[..., view.first_block :], admissible, self.rule.top_k))
        return torch.cat(ids, dim=2)

    def _gated(
        self, scoring: Scoring, view: View, starts: Int[Tensor, "T"]
    ) -> tuple[Int[Tensor, "B I T N"], Float[Tensor, "B I T N"]]:
        """Return blocks, and the log of their shares among all admissible blocks, which has a gradient."""
        queries, by_head = _precise(scoring.queries), per_query_head(scoring.summaries, self.num_heads)
        summed = view.chunks.tokens - starts + 1 if self.rule.sums else torch.ones_like(starts)
        ids, biases = [], []
        for rows in parts_of_rows(len(starts), view.num_blocks):
            scores = relevance(queries[:, :, rows], by_head, self.index_sets)
            admissible = self._admissible(starts[rows], view)
            ids.append(best_ids(scores.detach(), admissible, self.rule.top_k))
            bias = gate_bias(scores, admissible, summed[rows], self.d_model // self.index_sets)
            biases.append(bias.gather(-1, ids[-1].clamp(min=0)))
        return torch.cat(ids, dim=2), torch.cat(biases, dim=2)

    def _admissible(self, starts: Int[Tensor, "R"], view: View) -> Bool[Tensor, "R U"]:
        rule, (_, first_block, num_blocks) = self.rule, view
        return admissible_blocks(starts, rule.block_size, first_block, num_blocks, rule.max_blocks)

    def drawn(self, chunks: Chunks) -> Bool[Tensor, "R U"]:
        """Return the blocks of a whole sequence that each of these chunks draws, in any index set."""
        view = View(chunks, 0, len(chunks.tokens) // self.rule.block_size)
        return from_ids(self._drawn(view), view.num_blocks).flatten(0, 1).any(0)


def _precise(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
