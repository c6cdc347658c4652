"""Gated attention puts a sigmoid gate between softmax attention and its last projection.

Qiu et al. 2025, "Gated Attention for Large Language Models" (arXiv 2505.06708).

B batch, T time, S tokens so far, D model width, H query heads, C channels per head.
"""

from typing import Any

from torch import Tensor, nn

from zoo.common.checks import one_of
from zoo.mixers.attention import FullAttention
from zoo.mixers.base import Seq


class GatedAttention(FullAttention):
    """Scale the outputs of softmax attention by a sigmoid of the token, before the last projection:
    y = (attention(x) * sigmoid(x W_g)) W_o.

    gate: elementwise (one per channel) or headwise (one per head).  The rest is as in `zoo.mixers.attention`.
    """

    def __init__(self, *, d_model: int, num_heads: int, gate: str, **heads: Any) -> None:
        super().__init__(d_model=d_model, num_heads=num_heads, **heads)
        one_of("gate", gate, ("elementwise", "headwise"))
        self.gate = nn.Linear(d_model, d_model if gate == "elementwise" else num_heads, bias=False)

    def _attend(self, x: Seq, q: Tensor, k: Tensor, v: Tensor) -> Seq:
        y = super()._attend(x, q, k, v).unflatten(-1, (self.qkv.num_heads, -1))
        return (y * self.gate(x).sigmoid().unflatten(-1, (self.qkv.num_heads, -1))).flatten(2)
