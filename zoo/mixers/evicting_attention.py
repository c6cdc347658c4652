"""Attention keeps its cache within a fixed budget when a rule evicts as many tokens as arrive.

The rules of H2O (Zhang et al. 2023, arXiv 2306.14048), TOVA (Oren et al. 2024, arXiv 2401.06104) and SnapKV
(Li et al. 2024, arXiv 2404.14469), token by token.

B batch, T time, S tokens kept or new, D model width, H query heads, G key/value heads, C channels.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zoo.common.checks import at_least, one_of
from zoo.kernels.common.heads import per_query_head
from zoo.kernels.masked_attention import masked_attention
from zoo.mixers.base import Seq
from zoo.mixers.projections import AttentionHeads
from zoo.mixers.state import StateSize

POOLED = 5  # scores in snapkv's mean: a score and its neighbours


class State(NamedTuple):
    k: Float[Tensor, "B G S C"]
    v: Float[Tensor, "B G S C"]  # by age
    scores: Float[Tensor, "B G P"] | None  # summed weights of the P oldest tokens, where they are summed
    offset: int

    @property
    def selects(self) -> tuple[str, ...]:
        """Name the scores, which decide which tokens are evicted and nothing else."""
        return ("scores",)


class EvictingAttention(AttentionHeads[State]):
    """Attend to a cache of bounded size, from which a rule evicts the tokens of the lowest scores:
    a token sees the cache and itself, then joins the cache; above `budget`, the lowest scores leave.

    rule: how tokens are scored; the `recent` newest always stay.  h2o: the sum of the weights that the key
        had from all queries since it came, in the heads that share it.  tova: the weight from the last query,
        the mean over all heads, which therefore keep the same tokens; with recent=0, as published, the new
        token may leave at once.  snapkv: at budget + recent tokens, `recent` leave together; the score sums
        weights from the `recent` last queries as in h2o, then averages over POOLED neighbours in the cache (0
        beyond its ends), among which the `recent` newest do not count.
    Of equal scores the oldest leaves.  Scores are in float32 at least and pass no gradient.  Keys keep their
    positions.
    Not as published: H2O's code takes its budgets as shares of the first call's length, sums over the batch,
    frees nothing, and shows a token again that it had hidden, which no cache can.  TOVA's code evicts a
    prompt at once, so that the result depends on where a call ends.  SnapKV's code compresses once, where the
    prompt ends, and then grows, for each query head by itself.  Sums favour old tokens; no age divides them.
    """

    def __init__(self, *, budget: int, rule: str, recent: int, **heads: Any) -> None:
        super().__init__(**heads)
        one_of("rule", rule, ("h2o", "tova", "snapkv"))
        snaps = int(rule == "snapkv")
        at_least("recent", recent, snaps)
        at_least("budget", budget, max(recent + snaps, 1))
        self.budget, self.rule, self.recent = budget, rule, recent
        self.together = recent if snaps else 1  # tokens that leave at a time
        self.out_proj = self.last_projection()

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Find what each token sees, attend, and keep the tokens that were not evicted."""
        offset = 0 if state is None else state.offset
        q, k, v = self.qkv(x, offset=offset)
        scores = None
        if state is not None:
            k, v, scores = torch.cat([state.k, k], dim=2), torch.cat([state.v, v], dim=2), state.scores
        seen, alive, scores = self._evict(q.detach(), k.detach(), scores, offset)
        heads = self.qkv.num_heads
        y = masked_attention(
            q, per_query_head(k, heads), per_query_head(v, heads), per_query_head(seen, heads)
        )
        offset += x.shape[1]
        kept = _first(alive, self._count(offset))
        k, v = (part.gather(2, kept[..., None].expand(*kept.shape, part.shape[-1])) for part in (k, v))
        scored = self._scored(offset)
        scores = scores.gather(2, kept[..., :scored]) if scored else None
        return self.out_proj(y.transpose(1, 2).flatten(2)), State(k, v, scores, offset)

    @torch.no_grad()
    def _evict(
        self,
        q: Float[Tensor, "B H T C"],
        k: Float[Tensor, "B G S C"],
        scores: Float[Tensor, "B G P"] | None,
        offset: int,
    ) -> tuple[Bool[Tensor, "B G T S"], Bool[Tensor, "B G S"], Float[Tensor, "B G S"]]:
        """Return the keys that each token sees, the keys left after the last token, and the scores."""
        wide = torch.promote_types(q.dtype, torch.float32)
        past, place = k.shape[2] - q.shape[2], torch.arange(k.shape[2], device=k.device)
        with torch.autocast(q.device.type, enabled=False):
            q = q.to(wide).unflatten(1, (k.shape[1], -1)) * q.shape[-1] ** -0.5  # [B G H/G T C]
            logits = q @ k.to(wide)[:, :, None].mT
        total = torch.zeros_like(logits[:, :, 0, 0])
        if scores is not None:
            total = torch.cat([scores.to(wide), total[..., scores.shape[-1] :]], dim=-1)
        alive = torch.zeros_like(total, dtype=torch.bool) | (place < past)
        seen = []
        for t, logits_t in enumerate(logits.unbind(3), start=past):
            alive = alive | (place == t)
            seen.append(alive)
            weights = logits_t.masked_fill(~alive[:, :, None], -torch.inf).softmax(-1)
            tokens = offset + t - past + 1
            if self.rule == "tova":
                total = weights.mean((1, 2))[:, None].expand_as(total)
            elif self.rule == "h2o" or tokens > self.budget:
                total = total + weights.sum(2)
            if tokens > self.budget and (tokens - self.budget) % self.together == 0:
                among = alive & (place <= t - self.recent)
                if self.rule == "snapkv":
                    total = self._pooled(total, among)
                for _ in range(self.together):
                    alive = alive & ~self._least(total, alive & among, place)
                if self.rule == "snapkv":
                    total = torch.zeros_like(total)
        return torch.stack(seen, dim=2), alive, total

    def _pooled(self, scores: Float[Tensor, "B G S"], among: Bool[Tensor, "B G S"]) -> Tensor:
        """Average the scores of the `budget` oldest over their neighbours."""
        old = _first(among, self.budget)
        mean = F.avg_pool1d(scores.gather(2, old), POOLED, stride=1, padding=POOLED // 2)
        return scores.scatter(2, old, mean)

    def _least(self, scores: Tensor, among: Bool[Tensor, "B G S"], place: Tensor) -> Bool[Tensor, "B G S"]:
        """Mark the token of the least score, the oldest of equal ones."""
        scores = scores.masked_fill(~among, torch.inf)
        least = among & (scores <= scores.amin(-1, keepdim=True))
        return place == torch.where(least, place, place.numel()).amin(-1, keepdim=True)

    def _count(self, seq_len: int) -> int:
        """Count the tokens that are kept."""
        return min(seq_len, self.budget + (seq_len - self.budget) % self.together)

    def _scored(self, seq_len: int) -> int:
        """Count the tokens whose score is kept."""
        if self.rule == "snapkv":  # none before the first of the `recent` last queries
            return self.budget if self._count(seq_len) > self.budget else 0
        return self._count(seq_len) if self.rule == "h2o" else 0

    def state_size(self, seq_len: int) -> StateSize:
        """Count keys and values, and for each key/value head the scores."""
        kept = 2 * self.qkv.kv_dim * self._count(seq_len)
        return StateSize.read_whole(kept + self.qkv.num_kv_heads * self._scored(seq_len))


def _first(marked: Bool[Tensor, "B G S"], count: int) -> Int[Tensor, "B G N"]:
    """Return the places of the first `count` that are marked."""
    return (~marked).to(torch.int8).sort(dim=-1, stable=True).indices[..., :count]
