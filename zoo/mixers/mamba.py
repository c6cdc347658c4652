"""Mamba (S6) makes the step size, input map and output map of a diagonal state space depend on the token.

Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces" (arXiv 2312.00752), Algorithm 2
and Section 3.4, with the initial values of Section 3.6.

B batch, T time, D model width, E = expand * D inner width, N state dimension, K taps of the convolution,
R = dt_rank.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least
from zoo.kernels.selective_scan import selective_scan
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.short_conv import ShortConv
from zoo.mixers.state import StateSize
from zoo.mixers.undecayed import undecayed

DT_MIN, DT_MAX, DT_FLOOR = 1e-3, 1e-1, 1e-4  # the step sizes that a fresh model has


def first_dt_bias(steps: int) -> Float[Tensor, "steps"]:
    """Draw biases whose softplus is log-uniform in [DT_MIN, DT_MAX]: the step sizes of Section 3.6."""
    dt = torch.empty(steps).uniform_(math.log(DT_MIN), math.log(DT_MAX)).exp().clamp(min=DT_FLOOR)
    return dt + torch.log(-torch.expm1(-dt))


class State(NamedTuple):
    h: Float[Tensor, "B E N"]
    tail: Float[Tensor, "B K-1 E"]


class Mamba(Mixer[State]):
    """Scan a diagonal state space in each channel, with step sizes and maps that depend on the token.

    dt_rank: width of the bottleneck that makes the step size; None: ceil(d_model / 16).
    n_layers scales the initial output projection by 1/sqrt(n_layers), as the paper does for a residual
    stream.  A block's MLP is not counted; with one, the authors' code divides by sqrt(2 n_layers).  A_log and
    D carry `no_weight_decay = True`, which training reads: weight decay would pull all half-lives of the
    memory to one value.
    """

    def __init__(
        self, *, d_model: int, d_state: int, expand: int, kernel_size: int, dt_rank: int | None, n_layers: int
    ) -> None:
        super().__init__()
        for name, value in (("d_state", d_state), ("expand", expand), ("n_layers", n_layers)):
            at_least(name, value, 1)
        self.d_model, self.d_state, self.n_layers = d_model, d_state, n_layers
        self.d_inner = expand * d_model
        self.dt_rank = math.ceil(d_model / 16) if dt_rank is None else dt_rank
        at_least("dt_rank", self.dt_rank, 1)
        self.in_proj = nn.Linear(d_model, 2 * self.d_inner, bias=False)
        self.conv = ShortConv(self.d_inner, kernel_size)
        self.select = nn.Linear(self.d_inner, self.dt_rank + 2 * d_state, bias=False)
        self.dt_proj = nn.Linear(self.dt_rank, self.d_inner)
        self.A_log = nn.Parameter(torch.empty(self.d_inner, d_state))
        self.D = nn.Parameter(torch.empty(self.d_inner))
        self.out_proj = nn.Linear(self.d_inner, d_model, bias=False)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw step sizes log-uniformly and start A at -1 .. -N, as Section 3.6 does."""
        nn.init.uniform_(self.dt_proj.weight, -(self.dt_rank**-0.5), self.dt_rank**-0.5)
        self.dt_proj.bias.copy_(first_dt_bias(self.d_inner))
        self.A_log.copy_(torch.arange(1, self.d_state + 1).log().expand_as(self.A_log))
        nn.init.ones_(self.D)
        self.out_proj.weight.div_(math.sqrt(self.n_layers))
        undecayed(self.A_log, self.D)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Run the selective scan over the new tokens; keep its last state and the convolution's tail."""
        h, tail = (None, None) if state is None else state
        u, gate = self.in_proj(x).chunk(2, dim=-1)
        u, tail = self.conv(u, tail)
        u = F.silu(u)
        low, B, C = self.select(u).split([self.dt_rank, self.d_state, self.d_state], dim=-1)
        y, h = selective_scan(u, self._step_sizes(low), -self.A_log.exp(), B, C, h)
        y = ((y + self.D * u) * F.silu(gate)).to(x.dtype)  # a scan of few tokens is in float32
        return self.out_proj(y), State(h, tail)

    def _step_sizes(self, low: Float[Tensor, "B T R"]) -> Float[Tensor, "B T E"]:
        """Return the step sizes, by a transposed weight: its gradient takes a tenth of the time on a CPU."""
        weight = self.dt_proj.weight.mT.contiguous().mT
        return F.softplus(F.linear(low, weight, self.dt_proj.bias))

    def state_size(self, seq_len: int) -> StateSize:
        """Count N scalars per channel, and the tail; the published count has expand = 2 and no tail."""
        held = self.d_inner * self.d_state + self.conv.tail_size()
        return StateSize.read_whole(held, paper=2 * self.d_model * self.d_state)
