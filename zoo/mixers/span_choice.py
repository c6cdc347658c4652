"""Which blocks of the past the tokens of a chunk retrieve, and what must be kept to choose later ones.

B batch, T new tokens, S tokens kept, H query heads, G key/value heads, I index sets (1 or G), C channels per
head, R rows that choose (one a token or one a chunk), U blocks kept, N blocks chosen.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from zoo.kernels import span_retrieval as spans
from zoo.kernels.heads import per_query_head
from zoo.mixers.block_summaries import BlockSummaries
from zoo.mixers.projections import QueryKeyValue
from zoo.mixers.span_rule import SpanRule


class Memory(NamedTuple):
    """None where the selection reads no such thing.

    At the end of a chunk `prefix` keeps a query sum that the next chunk begins anew (the size stays simple).
    """

    summaries: Float[Tensor, "B H U C"] | None = None  # of the complete blocks; mean_key: "B G U C"
    queries: Float[Tensor, "B H W C"] | None = None  # of the incomplete block
    query_sum: Float[Tensor, "B H C"] | None = None  # of the open chunk (prev: of the last one at its end)
    blocks: Int[Tensor, "B I N"] | None = None  # chosen for the open chunk, counted from the first one kept

    def without(self, dropped: int, is_open: bool) -> "Memory":
        """Less the first `dropped` blocks, and less the choice of a chunk that is not open any more."""
        summaries = None if self.summaries is None else self.summaries[:, :, dropped:]
        blocks = self.blocks if self.blocks is None or is_open else self.blocks[..., :0]
        return self._replace(summaries=summaries, blocks=None if blocks is None else blocks - dropped)


class Choice(NamedTuple):
    blocks: Bool[Tensor, "B I T U"] | None  # None: no retrieval
    bias: Float[Tensor, "B I T U"] | None  # of a retrieved block's tokens


class View(NamedTuple):
    chunks: spans.Chunks
    first_block: int  # that is kept
    num_blocks: int  # kept and complete


class SpanChoice(nn.Module):
    """Scores are float32 at least, for a rounded one chooses another block; ties go to the lowest block.
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
        chunks: spans.Chunks,
    ) -> tuple[Choice, Memory]:
        """k, v: of all tokens that are kept, the new ones among them."""
        if not self.rule.retrieves:
            return Choice(None, None), Memory()
        size, begun = self.rule.block_size, chunks.first % self.rule.block_size
        summarised = k.shape[2] - q.shape[2] - begun
        view = View(chunks, (chunks.first - begun - summarised) // size, k.shape[2] // size)
        with (
            torch.set_grad_enabled(self.rule.gated and torch.is_grad_enabled()),
            torch.autocast(q.device.type, enabled=False),
        ):
            if self.rule.scores:
                q, k, v = (self._precise(part) for part in (q, k[:, :, summarised:], v[:, :, summarised:]))
                scores, memory = self._scores(qkv, q, k, v, past, chunks)
            else:
                scores, memory = self._draws(view), Memory()
            return self._chosen(scores, view, memory, past.blocks)

    def _precise(self, x: Tensor) -> Tensor:
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        return x if self.rule.gated else x.detach()  # under no_grad even a view would keep its gradient

    def _scores(
        self, qkv: QueryKeyValue, q: Tensor, k: Tensor, v: Tensor, past: Memory, chunks: spans.Chunks
    ) -> tuple[Float[Tensor, "B I R U"], Memory]:
        """k, v: from the first token of the block that was incomplete."""
        if self.rule.score_rope == "unrotated":
            q, k = (qkv.turned_back(part, chunks.first + q.shape[2] - part.shape[2]) for part in (q, k))
        summaries, queries = self.summaries(qkv, q, k, v, past.queries)
        if past.summaries is not None:
            summaries = torch.cat([past.summaries, summaries], dim=2)
        rows, query_sum = spans.scoring_queries(self.rule.selection, q, past.query_sum, chunks)
        scores = spans.relevance(rows, per_query_head(summaries, self.num_heads), self.index_sets)
        return scores, Memory(summaries, queries, query_sum)

    def _draws(self, view: View) -> Float[Tensor, "1 I R U"]:
        last = view.first_block + view.num_blocks
        drawn = spans.random_scores(self.rule.seed, self.index_sets, view.chunks.numbers, last)
        return drawn[..., view.first_block :]

    def _chosen(
        self, scores: Float[Tensor, "B I R U"], view: View, memory: Memory, frozen: Tensor | None
    ) -> tuple[Choice, Memory]:
        """frozen: ids that the first chunk chose before the call; none if it begins with the call."""
        chunks, rule, bias = view.chunks, self.rule, None
        starts = chunks.starts[chunks.of_token] if rule.per_token else chunks.starts
        admissible = self._admissible(starts, view)
        chosen = spans.best_blocks(scores.detach(), admissible, rule.top_k)
        if frozen is not None and frozen.shape[-1]:
            first = spans.from_ids(frozen, view.num_blocks)[:, :, None]
            chosen = torch.cat([first, chosen[:, :, 1:]], dim=2)
        if rule.gated:
            summed = chunks.tokens - starts + 1 if rule.sums else torch.ones_like(starts)
            bias = spans.gate_bias(scores, admissible, summed, self.d_model // self.index_sets)
        if rule.freezes:
            ids = spans.block_ids(chosen[:, :, -1], rule.retrieved(chunks.last_start))
            memory = memory._replace(blocks=ids)
        chosen = chosen if rule.per_token else chosen.index_select(2, chunks.of_token)
        return Choice(chosen, bias), memory

    def _admissible(self, starts: Int[Tensor, "R"], view: View) -> Bool[Tensor, "R U"]:
        rule, (_, first_block, num_blocks) = self.rule, view
        return spans.admissible_blocks(starts, rule.block_size, first_block, num_blocks, rule.max_blocks)

    def reachable(self, chunks: spans.Chunks) -> Bool[Tensor, "1 I T U"] | None:
        """The blocks that each token of a whole sequence may retrieve, whatever the inputs are."""
        view = View(chunks, 0, len(chunks.tokens) // self.rule.block_size)
        if not self.rule.retrieves:
            return None
        if not self.rule.scores:
            return self._chosen(self._draws(view), view, Memory(), None)[0].blocks
        return self._admissible(chunks.starts[chunks.of_token], view)[None, None]
