"""Raven keeps the slots of gated slot attention, of which a router lets each token write a few.

Afzal et al. 2026, "Raven: High-Recall Sequence Modeling with Sparse Memory Routing" (arXiv 2607.25357), with
the norms and initial values of the authors' code.

B batch, T time, D model width, H heads, C channels per head (H C == D), M slots per head.
"""

from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least
from zoo.mixers.base import Seq
from zoo.mixers.delta_heads import Forgetting
from zoo.mixers.gated_slot_attention import GatedSlotAttention
from zoo.mixers.largest import largest

EPS = 1e-9  # of the sum of the chosen scores


class Raven(GatedSlotAttention):
    """Attend to slots that hold means of past keys and values, of which each token writes a few.

    A slot keeps a share exp(a_t r_t) of its key and value and takes the rest from the token's.
    a < 0 is a log decay, one per head (`Forgetting`).  r is g / (scale sum g), where g is sigmoid(x W) in the
    num_chosen largest and zero elsewhere; slots with g = 0 stay as they are.  Ties go to the lowest slot.
    q and k pass silu, then an RMSNorm per head.  A slot that was never written is zero and is read like the
    others.  All else is as in gated slot attention.

    num_slots: M, at least 2; None: C.  num_chosen: None: half of the slots.  scale: the paper's alpha.
    Left out: the noise on the router's logits in training, and the output gate, which the paper has and the
    authors' code by default has not.
    """

    def __init__(
        self, *, d_model: int, num_heads: int, num_slots: int | None, num_chosen: int | None, scale: float
    ) -> None:
        super().__init__(d_model=d_model, num_heads=num_heads, num_slots=num_slots, temperature=1.0)
        self.num_chosen = self.num_slots // 2 if num_chosen is None else num_chosen
        at_least("num_chosen", self.num_chosen, 1)
        at_least("num_slots", self.num_slots, self.num_chosen)
        at_least("scale", scale, 1)
        self.scale = scale
        self.q_norm, self.k_norm = (nn.RMSNorm(self.head_dim, eps=1e-5) for _ in range(2))
        self.forget = Forgetting(d_model, num_heads)

    def _activated(self, x: Seq) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super()._activated(x)
        return self.q_norm(q), self.k_norm(k), v

    def _log_decay(self, x: Seq) -> Float[Tensor, "B H T M"]:
        scores = self._heads(self.keep(x)).sigmoid()
        scores = scores * largest(scores, self.num_chosen)
        share = scores / (self.scale * (scores.sum(-1, keepdim=True) + EPS))
        return self.forget(x)[..., None] * share
