"""DeepSeek sparse attention: a light indexer chooses the tokens that attention reads.

DeepSeek-AI 2025, DeepSeek-V3.2 (arXiv 2512.02556), Section 2.1, over grouped-query attention.

B batch, T time, S tokens so far, D model width, H query heads, G key/value heads, C channels per head,
J index heads of I channels.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from zoo.common.checks import at_least
from zoo.kernels.common.heads import per_query_head
from zoo.mixers.base import Seq
from zoo.mixers.cache import append
from zoo.mixers.largest import largest
from zoo.mixers.projections import AttentionHeads
from zoo.mixers.state import StateSize


class State(NamedTuple):
    k: Float[Tensor, "B G S C"]
    v: Float[Tensor, "B G S C"]
    index_k: Float[Tensor, "B S I"]

    @property
    def selects(self) -> tuple[str, ...]:
        """Name the index keys, which choose tokens and nothing else."""
        return ("index_k",)


class DeepSeekSparseAttention(AttentionHeads[State]):
    """Attend to the `top_k` tokens so far that a light indexer gives the highest scores:
    token t attends to the top_k tokens s <= t of the largest sum_j w_tj ReLU(q_tj . k_s).

    Index queries and keys are projections of the token; keys pass a LayerNorm and serve all J heads;
    w = x W / sqrt(J I).  Of equal scores the latest is chosen; ties are common, since ReLU makes many zeros.
    No gradient passes the choice.  The indexer is trained as in the paper's second stage: each backward pass
    adds `aux_weight` times the gradient of KL(attention's weights, mean over heads || softmax of the scores)
    over the chosen tokens, mean over tokens; the indexer's input and the weights are detached from it.  With
    aux_weight 0 the indexer stays random.
    Left out: the first stage (dense attention, indexer alone), the rotation of index keys and queries by
    position and by a Hadamard matrix, latents (MLA), FP8.  Other settings as in `zoo.mixers.attention`.
    """

    def __init__(
        self, *, d_model: int, top_k: int, index_heads: int, index_dim: int, aux_weight: float, **heads: Any
    ) -> None:
        super().__init__(d_model=d_model, **heads)
        at_least("top_k", top_k, 2)  # attention to one token does not depend on its key
        for name, value in (("index_heads", index_heads), ("index_dim", index_dim)):
            at_least(name, value, 1)
        at_least("aux_weight", aux_weight, 0)
        self.top_k, self.index_heads, self.index_dim = top_k, index_heads, index_dim
        self.aux_weight = aux_weight
        self.index_proj = nn.Linear(d_model, index_heads * (index_dim + 1) + index_dim, bias=False)
        self.index_norm = nn.LayerNorm(index_dim)
        self.out_proj = self.last_projection()

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Choose tokens and attend to them; keep the keys, values and index keys of all tokens."""
        q, k, v = self.qkv(x, offset=0 if state is None else state.k.shape[2])
        parts = self.index_proj(x.detach())
        index = self.index_norm(parts[..., : self.index_dim])
        if state is not None:
            k, v = append(state.k, k, dim=2), append(state.v, v, dim=2)
            index = append(state.index_k, index, dim=1)
        scores = self._scores(parts[..., self.index_dim :], index)
        chosen = self._chosen(scores.detach())
        wide = torch.promote_types(x.dtype, torch.float32)
        with torch.autocast(x.device.type, enabled=False):
            keys, values = (per_query_head(part.to(wide), self.qkv.num_heads) for part in (k, v))
            logits = q.to(wide) @ keys.mT * self.qkv.head_dim**-0.5
            weights = logits.masked_fill(~chosen[:, None], -torch.inf).softmax(-1)
            y = (weights @ values).transpose(1, 2).flatten(2)
            if self.aux_weight and torch.is_grad_enabled():
                y = AddLoss.apply(y, self.aux_weight * divergence(weights.detach().mean(1), scores, chosen))
        return self.out_proj(y.to(x.dtype)), State(k, v, index)

    def _scores(self, parts: Float[Tensor, "B T J*I+J"], index: Tensor) -> Float[Tensor, "B T S"]:
        wide = torch.promote_types(parts.dtype, torch.float32)
        q, w = parts.to(wide).split([self.index_heads * self.index_dim, self.index_heads], dim=-1)
        q = q.unflatten(-1, (self.index_heads, -1)).transpose(1, 2)
        with torch.autocast(parts.device.type, enabled=False):
            each = (q @ index.to(wide)[:, None].mT).relu()
            return (w.mT[..., None] * each).sum(1) * (self.index_heads * self.index_dim) ** -0.5

    def _chosen(self, scores: Float[Tensor, "B T S"]) -> Bool[Tensor, "B T S"]:
        """Mark the top_k tokens of each row, the latest of equal ones."""
        length, total = scores.shape[1:]
        visible = torch.ones(length, total, dtype=torch.bool, device=scores.device).tril(total - length)
        newest_first = scores.masked_fill(~visible, -torch.inf).flip(-1)
        return largest(newest_first, self.top_k).flip(-1) & visible

    def state_size(self, seq_len: int) -> StateSize:
        """Count all keys, values and index keys; a step reads the index and top_k keys and values."""
        each, index = 2 * self.qkv.kv_dim, self.index_dim * seq_len
        touched = index + each * min(self.top_k, seq_len)
        return StateSize(paper=None, resident=index + each * seq_len, touched=touched)


def divergence(
    wanted: Float[Tensor, "B T S"], scores: Float[Tensor, "B T S"], chosen: Bool[Tensor, "B T S"]
) -> Float[Tensor, ""]:
    """Return KL(wanted || softmax of the chosen scores), the mean over tokens."""
    log_share = scores.masked_fill(~chosen, -torch.inf).log_softmax(-1).masked_fill(~chosen, 0)
    return (torch.xlogy(wanted, wanted) - wanted * log_share).sum(-1).mean()


class AddLoss(torch.autograd.Function):
    """Return y unchanged; the backward pass treats `loss` as if it were added to the training loss."""

    generate_vmap_rule = True

    @staticmethod
    def forward(y: Tensor, loss: Tensor) -> Tensor:
        """Return y."""
        del loss
        return y.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Keep the loss, for its shape and dtype."""
        ctx.save_for_backward(inputs[1])

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient of y as it comes, and 1 for the loss."""
        return grad_outputs[0], torch.ones_like(ctx.saved_tensors[0])
