"""Based's optional decay: each head forgets at a rate of its own, fixed, and a gate scales what it says.

B batch, T time, D model width, H heads.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.mixers.base import Seq

FASTEST = -3  # c: the first head keeps 1 - 2^-3 of its sums a step, each further one forgets half as much


class Fade(NamedTuple):
    """Powers of the heads' rates over a chunk of T tokens."""

    between: Float[Tensor, "H T T"]  # gamma^(i - j) for j <= i, else zero
    since: Float[Tensor, "H T 1"]  # gamma^(i + 1): what was before the chunk, seen by token i
    until: Float[Tensor, "H T 1"]  # gamma^(T - 1 - j): token j, at the chunk's end
    whole: Float[Tensor, "H 1 1"]  # gamma^T


class HeadDecay(nn.Module):
    """gamma_h = 1 - 2^(c - h), c = -3, and the gate g = x W + b, no activation (arXiv 2402.18668, App. C).

    The weight of token j for token i is g_h(x_i) gamma_h^(i - j) phi(q_i) . phi(k_j); the denominator keeps
    the undecayed sum.  The bias starts at one, where the gate does nothing (ours).
    """

    gamma: Float[Tensor, "H"]

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.register_buffer("gamma", 1 - 2.0 ** (FASTEST - torch.arange(num_heads)), persistent=False)
        self.gate_proj = nn.Linear(d_model, num_heads)
        nn.init.ones_(self.gate_proj.bias)

    def forward(self, length: int) -> Fade:
        """Return the powers of the rates over a chunk of `length` tokens."""
        t = torch.arange(length, device=self.gamma.device)
        rate = self.gamma[:, None, None]
        between = (rate ** (t[:, None] - t).clamp(min=0)).tril()
        return Fade(between, rate ** (t[:, None] + 1), rate ** (length - 1 - t[:, None]), rate**length)

    def gate(self, x: Seq) -> Float[Tensor, "B H T 1"]:
        """Return the factor on each head's output at each token."""
        return self.gate_proj(x).mT[..., None]
