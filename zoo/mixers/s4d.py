"""S4D runs a diagonal state space per channel, the same at every token, and a gated linear layer on top.

Gu et al., "On the Parameterization and Initialization of Diagonal State Space Models" (arXiv 2206.11893).

B batch, T time, D model width, N state dimension.
"""

from typing import NamedTuple

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.diagonal_ssm import DiagonalSSM
from zoo.mixers.state import StateSize


class State(NamedTuple):
    modes: Float[Tensor, "B D N"]  # complex: N/2 real parts, then N/2 imaginary


class S4D(Mixer[State]):
    """Run a fixed linear recurrence of complex modes in each channel, then a gated layer over channels:
    y = GLU(gelu(u) W + b), u_t = 2 Re(C . h_t) + D x_t, h_t = A' h_{t-1} + B' x_t in each channel.

    A_n = -1/2 + i pi n at first (S4D-Lin).  discretization: zoh, A' = exp(dt A) and B' = (A' - 1) / A, or
    bilinear, A' = (1 + dt A / 2) / (1 - dt A / 2) and B' = dt / (1 - dt A / 2).
    """

    def __init__(self, *, d_model: int, d_state: int, discretization: str) -> None:
        super().__init__()
        at_least("d_model", d_model, 1)
        self.d_model, self.d_state = d_model, d_state
        self.ssm = DiagonalSSM(d_model, d_state, discretization)
        self.out_proj = nn.Linear(d_model, 2 * d_model)

    def forward(self, x: Seq) -> Seq:
        """Convolve the whole sequence with each channel's impulse response."""
        return self._output(self.ssm(x[:, :, None]), x)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Convolve the new tokens and add the outputs of the kept modes; keep the next modes."""
        before, x = (None if state is None else state.modes[:, None]), x[:, :, None]
        u = self.ssm(x)
        if before is not None:
            u = u + self.ssm.read(before, x.shape[1])
        return self._output(u, x), State(self.ssm.advance(x, before)[:, 0])

    def _output(self, u: Float[Tensor, "B T 1 D"], x: Tensor) -> Seq:
        return F.glu(self.out_proj(F.gelu(u[:, :, 0].to(x.dtype))), dim=-1)

    def state_size(self, seq_len: int) -> StateSize:
        """Count N scalars per channel, for N/2 complex modes."""
        held = self.d_model * self.d_state
        return StateSize.read_whole(held, paper=held)
