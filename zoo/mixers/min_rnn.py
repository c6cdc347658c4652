"""minGRU and minLSTM have gates that see the token alone, so that a parallel scan trains them.

Feng et al. 2024, "Were RNNs All We Needed?" (arXiv 2410.01201).

B batch, T time, D model width, E inner width.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, one_of
from zoo.kernels.diagonal_scan import diagonal_scan
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.state import StateSize


class State(NamedTuple):
    h: Float[Tensor, "B E"]


class MinRNN(Mixer[State]):
    """Mix tokens by one recurrence per channel, with gates that see the token alone:
    h_t = f_t h_{t-1} + i_t g(u_t), g(u) = u + 1/2 where u >= 0, else sigmoid(u).

    cell: gru has i = sigmoid(x W) and f = 1 - i; lstm has two such gates f and i, each divided by their sum.
    d_inner: E; None: d_model.  y is h through a projection.
    """

    def __init__(self, *, d_model: int, d_inner: int | None, cell: str) -> None:
        super().__init__()
        one_of("cell", cell, ("gru", "lstm"))
        self.cell, self.d_inner = cell, d_model if d_inner is None else d_inner
        at_least("d_inner", self.d_inner, 1)
        self.in_proj = nn.Linear(d_model, (2 if cell == "gru" else 3) * self.d_inner, bias=False)
        self.out_proj = nn.Linear(self.d_inner, d_model, bias=False)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Scan the gated inputs channel by channel; keep one number per channel."""
        u, gate, *forget = (
            self.in_proj(x).to(torch.promote_types(x.dtype, torch.float32)).split(self.d_inner, -1)
        )
        if forget:  # log i - log f: the logit of i / (f + i)
            gate = F.logsigmoid(gate) - F.logsigmoid(forget[0])
        above = u.relu()
        u = above + (u - above).sigmoid()  # torch.where with a number is slow on a CPU
        y, h = diagonal_scan((-gate).sigmoid(), gate.sigmoid() * u, None if state is None else state.h)
        return self.out_proj(y.to(x.dtype)), State(h)

    def state_size(self, seq_len: int) -> StateSize:
        """Count one number per channel."""
        return StateSize.read_whole(self.d_inner)
