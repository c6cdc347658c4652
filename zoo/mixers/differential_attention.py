"""Differential attention weighs one set of values by the difference of two softmaxes.

Ye et al. 2024, "Differential Transformer" (arXiv 2410.05258).

B batch, T time, S tokens so far, D model width, H heads, C channels of a query or key (2 H C == D).
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple
from zoo.kernels.attention import attention
from zoo.mixers.attention import FullAttention
from zoo.mixers.base import Seq
from zoo.mixers.undecayed import undecayed


class DifferentialAttention(FullAttention):
    """Subtract one softmax attention, times a learned factor, from another over the same values:
    y = (1 - first) RMSNorm((A_1 - lambda A_2) v), A_1 and A_2 two attentions of C channels, v of 2 C.

    lambda = exp(l_1 l_2) - exp(l_3 l_4) + first, learned vectors that all heads share;
    first = .8 - .6 exp(-.3 layer), and one RMSNorm of a head's 2 C channels.
    layer: 0 is the lowest.  Other settings as in `zoo.mixers.attention`; num_heads counts pairs of softmaxes.
    The vectors l carry `no_weight_decay = True`, which training reads.
    """

    def __init__(
        self, *, d_model: int, num_heads: int, num_kv_heads: int | None, layer: int, **heads: Any
    ) -> None:
        multiple("d_model", d_model, f"num_heads (={num_heads}), of two softmaxes each", 2 * num_heads)
        kv_heads = None if num_kv_heads is None else 2 * num_kv_heads
        super().__init__(d_model=d_model, num_heads=2 * num_heads, num_kv_heads=kv_heads, **heads)
        at_least("layer", layer, 0)
        self.first = 0.8 - 0.6 * math.exp(-0.3 * layer)
        self.exponents = nn.Parameter(torch.randn(4, self.qkv.head_dim) * 0.1)
        self.norm = nn.RMSNorm(2 * self.qkv.head_dim, eps=1e-5)
        undecayed(self.exponents)

    def _attend(self, x: Seq, q: Tensor, k: Tensor, v: Tensor) -> Seq:
        wide = v.unflatten(1, (-1, 2)).transpose(2, 3).flatten(3)  # [B G S 2C]
        y = attention(q, k, wide.repeat_interleave(2, dim=1), slopes=self.qkv.slopes)
        one, other = y.unflatten(1, (-1, 2)).unbind(2)
        a, b, c, d = self.exponents.unbind()
        y = one - ((a @ b).exp() - (c @ d).exp() + self.first) * other
        y = (1 - self.first) * self.norm(y.to(self.norm.weight.dtype))
        return y.transpose(1, 2).flatten(2).to(x.dtype)
