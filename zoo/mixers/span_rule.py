"""Hold the settings of SE-Attn's retrieval, and what follows from them."""

from dataclasses import dataclass
from typing import Literal, get_args

from zoo.common.checks import at_least, one_of

Selection = Literal["token", "first", "prefix", "prev", "chunk", "random", "none"]
Summary = Literal["attn_value", "attn_key", "mean_key", "landmark"]
ALL = 2**40  # more blocks than any sequence has


@dataclass(frozen=True)
class SpanRule:
    """Set which blocks of the past SE-Attn retrieves, and what scores them.
    selection: the query that scores the blocks for token t of a chunk.  token: t's own; first: the chunk's
        first; prefix: the sum over the chunk up to t; prev: the sum over the chunk before; chunk: the sum
        over the whole chunk (the paper; not causal); random: a draw that depends on (`seed`, chunk) alone,
        the same in every sequence and, unless their seeds differ, every layer: it reads no summary or query;
        none: no retrieval (SE-Attn-NoMem), as is top_k=0.
    summary: what a block is scored by, see `zoo.mixers.block_summaries`.
    max_blocks: the number of last blocks before the chunk that can be retrieved (ours); None: all.  They all
        stay until the chunk's end, even after its choice is made and where no later chunk can reach them.
    gate: bias adds log softmax(score / sqrt(width)) over the admissible blocks to the logits of a retrieved
        block's tokens, and so trains the scores (ours; for selection token, or prefix with the mean query).
    score_rope: rotated (the paper) or unrotated queries and keys score.
    """

    block_size: int
    top_k: int
    selection: Selection = "token"
    summary: Summary = "attn_value"
    max_blocks: int | None = None
    gate: Literal["none", "bias"] = "none"
    score_rope: Literal["rotated", "unrotated"] = "rotated"
    seed: int = 0

    def __post_init__(self) -> None:
        one_of("selection", self.selection, get_args(Selection))
        one_of("summary", self.summary, get_args(Summary))
        one_of("gate", self.gate, ("none", "bias"))
        one_of("score_rope", self.score_rope, ("rotated", "unrotated"))
        at_least("top_k", self.top_k, 0)
        if self.max_blocks is not None:
            at_least("max_blocks", self.max_blocks, 1)
        if self.gate == "bias" and self.selection not in ("token", "prefix"):
            raise ValueError(
                f"gate (='bias') needs selection token or prefix, which choose anew (={self.selection!r})."
            )

    @property
    def retrieves(self) -> bool:
        """Tell whether tokens look at blocks of the past at all."""
        return self.selection != "none" and self.top_k > 0

    @property
    def scores(self) -> bool:
        """Tell whether queries score the blocks by summaries."""
        return self.retrieves and self.selection != "random"

    @property
    def per_token(self) -> bool:
        """Tell whether every token chooses anew; otherwise a chunk chooses once."""
        return self.selection in ("token", "prefix")

    @property
    def freezes(self) -> bool:
        """Tell whether an open chunk's choice is kept, because it cannot be made again."""
        return self.retrieves and self.selection in ("first", "prev")

    @property
    def sums(self) -> bool:
        """Tell whether blocks are scored by a sum of queries, which is then kept."""
        return self.retrieves and self.selection in ("prefix", "prev")

    @property
    def gated(self) -> bool:
        """Tell whether scores are added to the logits, and so trained."""
        return self.retrieves and self.gate == "bias"

    @property
    def capacity(self) -> int:
        """The number of blocks kept from before the open chunk."""
        return (self.max_blocks or ALL) if self.retrieves else 0

    @property
    def causal(self) -> bool:
        """Tell whether no choice reads a later query."""
        return self.selection != "chunk" or not self.retrieves

    def retrieved(self, chunk_start: int) -> int:
        """Return the number of blocks that a token of the chunk that starts there retrieves."""
        return min(self.top_k, self.capacity, chunk_start // self.block_size)
