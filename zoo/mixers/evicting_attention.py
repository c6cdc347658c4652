"""Attention over a cache of a fixed budget, from which a rule evicts a token for each one that comes.

The rules of H2O (Zhang et al. 2023, arXiv 2306.14048) and TOVA (Oren et al. 2024, arXiv 2401.06104), token by
token.  B batch, T time, S tokens kept or new, D model width, H query heads, G key/value heads, C channels.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from zoo.common.checks import at_least, one_of
from zoo.kernels.common.heads import per_query_head
from zoo.kernels.masked_attention import masked_attention
from zoo.mixers.base import Seq
from zoo.mixers.projections import AttentionHeads
from zoo.state import StateSize


class State(NamedTuple):
    k: Float[Tensor, "B G S C"]
    v: Float[Tensor, "B G S C"]  # S = min(offset, budget), by age
    scores: Float[Tensor, "B G S"] | None  # h2o: the weight that each token has had
    offset: int

    @property
    def selects(self) -> tuple[str, ...]:
        """Name the scores, which decide who is evicted and nothing else."""
        return ("scores",)


class EvictingAttention(AttentionHeads[State]):
    """A token sees the cache and itself; then it joins, and over `budget` tokens the least of them leaves.

    rule: h2o, least is the sum of the weights that a key had from all queries since it came, in the heads
        that share it; the `recent` newest stay.  tova, least is the last query's weight, the mean over all
        heads, which therefore keep the same tokens; with recent=0, as published, the new one may leave at
        once.
    Ties go to the oldest.  Scores are in float32 at least and pass no gradient.  Keys keep their positions.
    Not as published: H2O's code takes its budgets as shares of the first call's length, sums over the batch,
    frees nothing, and shows a token again that it had hidden, which no cache can; TOVA's evicts a prompt at
    once, so that it depends on where a call ends.  A sum favours old tokens; nothing here divides by the age.
    """

    def __init__(self, *, budget: int, rule: str, recent: int, **heads: Any) -> None:
        super().__init__(**heads)
        one_of("rule", rule, ("h2o", "tova"))
        at_least("recent", recent, 0)
        at_least("budget", budget, max(recent, 1))
        self.budget, self.rule, self.recent = budget, rule, recent
        self.out_proj = self.last_projection()

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Find what each token sees, attend, and keep what no token evicted."""
        offset = 0 if state is None else state.offset
        q, k, v = self.qkv(x, offset=offset)
        scores = None
        if state is not None:
            k, v, scores = torch.cat([state.k, k], dim=2), torch.cat([state.v, v], dim=2), state.scores
        seen, alive, scores = self._evict(q.detach(), k.detach(), scores)
        heads = self.qkv.num_heads
        y = masked_attention(
            q, per_query_head(k, heads), per_query_head(v, heads), per_query_head(seen, heads)
        )
        count = min(offset + x.shape[1], self.budget)
        kept = (~alive).to(torch.int8).sort(dim=-1, stable=True).indices[..., :count]
        k, v = (part.gather(2, kept[..., None].expand(*kept.shape, part.shape[-1])) for part in (k, v))
        scores = scores.gather(2, kept) if self.rule == "h2o" else None
        return self.out_proj(y.transpose(1, 2).flatten(2)), State(k, v, scores, offset + x.shape[1])

    @torch.no_grad()
    def _evict(
        self, q: Float[Tensor, "B H T C"], k: Float[Tensor, "B G S C"], scores: Float[Tensor, "B G P"] | None
    ) -> tuple[Bool[Tensor, "B G T S"], Bool[Tensor, "B G S"], Float[Tensor, "B G S"]]:
        """Return what each token sees, what is left after the last, and the scores."""
        wide = torch.promote_types(q.dtype, torch.float32)
        past, place = k.shape[2] - q.shape[2], torch.arange(k.shape[2], device=k.device)
        with torch.autocast(q.device.type, enabled=False):
            q = q.to(wide).unflatten(1, (k.shape[1], -1)) * q.shape[-1] ** -0.5  # [B G H/G T C]
            logits = q @ k.to(wide)[:, :, None].mT
        total = torch.zeros_like(logits[:, :, 0, 0])
        if scores is not None:
            total = torch.cat([scores.to(wide), total[..., past:]], dim=-1)
        alive = torch.zeros_like(total, dtype=torch.bool) | (place < past)
        seen = []
        for t, logits_t in enumerate(logits.unbind(3), start=past):
            alive = alive | (place == t)
            seen.append(alive)
            weights = logits_t.masked_fill(~alive[:, :, None], -torch.inf).softmax(-1)
            if self.rule == "h2o":
                total = total + weights.sum(2)
            else:
                total = weights.mean((1, 2))[:, None].expand_as(total)
            if min(past, self.budget) + (t - past) + 1 > self.budget:
                alive = alive & ~self._least(total, alive & (place <= t - self.recent), place)
        return torch.stack(seen, dim=2), alive, total

    def _least(self, scores: Tensor, among: Bool[Tensor, "B G S"], place: Tensor) -> Bool[Tensor, "B G S"]:
        """Mark the oldest of the least scores."""
        scores = scores.masked_fill(~among, torch.inf)
        least = among & (scores <= scores.amin(-1, keepdim=True))
        return place == torch.where(least, place, place.numel()).amin(-1, keepdim=True)

    def state_size(self, seq_len: int) -> StateSize:
        """Count keys and values of the budget, and with h2o a score for each token and key/value head."""
        scores = self.qkv.num_kv_heads if self.rule == "h2o" else 0
        return StateSize.read_whole((2 * self.qkv.kv_dim + scores) * min(seq_len, self.budget))
