"""MesaNet fits a linear map from all keys so far to their values, anew for every token.

Von Oswald et al. 2025, "MesaNet: Sequence Modeling by Locally Optimal Test-Time Training" (arXiv 2506.05233),
with the layer and the initial values of github.com/fla-org/flash-linear-attention, fla/layers/mesa_net.py.

B batch, T time, D model width, H heads, C channels per head (H * C == D), K taps of the convolution.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import multiple
from zoo.kernels.mesa import mesa
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.delta_heads import ConvolvedHeads, HeadsOutput, unit
from zoo.mixers.state import StateSize
from zoo.mixers.undecayed import undecayed

RIDGE_LEAST, RIDGE_FIRST = 0.25, 1.0


class State(NamedTuple):
    kk: Float[Tensor, "B H C C"]  # symmetric, and kept whole, as it is published
    kv: Float[Tensor, "B H C C"]
    tail: Float[Tensor, "B K-1 2D"]


class MesaNet(Mixer[State]):
    """Apply to each query the ridge regression from all keys so far to their values:
    y_t = kv_t^T (kk_t + diag(ridge))^{-1} q_t, kk and kv the decayed sums of beta k k^T and beta k v^T.

    q and k are SiLU(conv(x W)) scaled to norm 1, v = x W; beta and the decay are sigmoids of x, one per head;
    ridge = 0.25 + softplus of a parameter, one per key channel, which carries `no_weight_decay = True`.
    Where we differ on purpose: the system is solved exactly, not by 30 steps of conjugate gradients.
    """

    def __init__(self, *, d_model: int, num_heads: int, kernel_size: int) -> None:
        super().__init__()
        multiple("d_model", d_model, "num_heads", num_heads)
        self.d_model, self.num_heads, self.head_dim = d_model, num_heads, d_model // num_heads
        self.kernel_size = kernel_size
        self.qk = ConvolvedHeads(d_model, num_heads, [self.head_dim] * 2, kernel_size)
        self.value = nn.Linear(d_model, d_model, bias=False)
        self.gates = nn.Linear(d_model, 2 * num_heads)
        first = math.log(
            math.expm1(RIDGE_FIRST - RIDGE_LEAST)
        )  # softplus of this and RIDGE_LEAST is RIDGE_FIRST
        self.ridge = nn.Parameter(torch.full((num_heads, self.head_dim), first))
        undecayed(self.ridge)
        self.output = HeadsOutput(d_model, num_heads, self.head_dim, gate=False)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Add the new tokens to both sums and solve for each; keep the sums and the tail."""
        sums, tail = (None, None) if state is None else (state[:2], state.tail)
        (q, k), tail = self.qk(x, tail)
        v = self.value(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        beta, keep = self.gates(x).transpose(1, 2).chunk(2, dim=1)
        ridge = F.softplus(self.ridge) + RIDGE_LEAST
        y, sums = mesa(unit(q), unit(k), v, beta.sigmoid(), F.logsigmoid(keep), ridge, sums)
        return self.output(y, x), State(*sums, tail)

    def state_size(self, seq_len: int) -> StateSize:
        """Count both matrices whole, and the tail; of kk, which is symmetric, (C + 1) / 2C would suffice."""
        return StateSize.read_whole(2 * self.num_heads * self.head_dim**2 + self.qk.conv.tail_size())
