"""Compute the heads of RWKV-5 and 6, from shifted inputs to the output.

B batch, T time, D model width, H heads, C channels of a head.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.kernels.wkv6 import wkv6
from zoo.mixers.base import Seq
from zoo.mixers.group_norm import HeadsGroupNorm
from zoo.mixers.heads import heads_of
from zoo.mixers.token_shift import Depth, ramp
from zoo.mixers.undecayed import undecayed

Memory = Float[Tensor, "B H C C"]


class WkvHeads(nn.Module):
    """Run the recurrence `wkv6` in each head, then normalise, gate and project its outputs:
    y = (GroupNorm(wkv(r, k, v)) * SiLU(g)) W_o.  head_dim: None is 64, or d_model where that is less.

    Keys and gate start small, the output at zero.  Weight decay acts on the matrices alone.
    """

    def __init__(self, d_model: int, head_dim: int | None, layer: int, n_layers: int) -> None:
        super().__init__()
        _, self.head_dim = heads_of("d_model", d_model, head_dim)
        self.receptance, self.key, self.value, self.gate, self.out_proj = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(5)
        )
        zigzag = (torch.arange(d_model) + 1) % 3 - 1
        self.bonus = nn.Parameter(Depth.of(layer, n_layers).late * (1 - ramp(d_model)) + 0.1 * zigzag)
        undecayed(self.bonus)
        self.norm = HeadsGroupNorm(d_model, self.head_dim, scale=((1 + layer) / n_layers) ** 0.7)
        for linear, gain in ((self.receptance, 1.0), (self.key, 0.1), (self.value, 1.0), (self.gate, 0.1)):
            nn.init.orthogonal_(linear.weight, gain)
        nn.init.zeros_(self.out_proj.weight)

    def forward(
        self, x_r: Seq, x_k: Seq, x_v: Seq, x_g: Seq, log_decay: Float[Tensor, "B T D"], S: Memory | None
    ) -> tuple[Seq, Memory]:
        """Return the outputs of the shifted inputs, and the heads' matrices after them."""
        r, k, v = self.receptance(x_r), self.key(x_k), self.value(x_v)
        r, k, v, log_decay = (
            s.unflatten(-1, (-1, self.head_dim)).transpose(-3, -2) for s in (r, k, v, log_decay)
        )
        y, S = wkv6(r, k, v, log_decay, self.bonus.unflatten(-1, (-1, self.head_dim)), S)
        return self.out_proj((self.norm(y) * F.silu(self.gate(x_g))).to(x_r.dtype)), S


def initial_decay(d_model: int, depth: Depth) -> Float[Tensor, "D"]:
    """Return log(-log decay): memory of exp(6) tokens (first channel) to e (last), longer in high layers."""
    return -6 + 5 * ramp(d_model) ** (0.7 + 1.3 * depth.late)
