"""H3 puts two state spaces between gates: a shift recalls recent inputs, a diagonal one stores.

Fu et al., "Hungry Hungry Hippos" (arXiv 2212.14052), Section 3.1 and Algorithm 1.

B batch, T time, D model width, H heads of C channels (H * C == D; channel c of head h is
c * H + h), N state dimension.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple
from zoo.kernels.fft_conv import fft_conv
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.diagonal_ssm import DiagonalSSM
from zoo.mixers.state import StateSize
from zoo.mixers.undecayed import undecayed


class State(NamedTuple):
    shift: Float[Tensor, "B N-1 D"]  # the last keys
    kv: Float[Tensor, "B C*C H N"]  # complex modes: N/2 real parts, then N/2 imaginary


class Shift(nn.Module):
    """Filter with N taps, the correlation of C and B: a state space whose state is its last N inputs."""

    def __init__(self, channels: int, d_state: int) -> None:
        super().__init__()
        self.B = nn.Parameter(torch.eye(1, d_state).repeat(channels, 1))
        self.C = nn.Parameter(torch.empty(channels, d_state).uniform_(-(d_state**-0.5), d_state**-0.5))
        self.D = nn.Parameter(torch.randn(channels))
        undecayed(self.B, self.D)

    def taps(self) -> Float[Tensor, "D N"]:
        """Return taps[l] = sum over i of C[i + l] B[i], with D on the present input."""
        w = fft_conv(self.C.T.flip(0)[None], self.B)[0].flip(0).T
        return torch.cat([w[:, :1] + self.D[:, None], w[:, 1:]], dim=1)

    def forward(self, u: Tensor, past: Tensor | None) -> Tensor:
        """Convolve u with the taps, after `past` where there is one."""
        return fft_conv(u, self.taps(), past)


class H3(Mixer[State]):
    """Store products of shifted keys and values in a diagonal state space, and read it with queries:
    y_t = sum over i of q_t[i] S4D(kbar v^T)_t[i, :] in each head, kbar = Shift(k); then a projection.

    The diagonal kernel is as long as the sequence: if it were cut at a longest length, as published, there
    would be no finite recurrence.
    """

    def __init__(self, *, d_model: int, d_state: int, head_dim: int) -> None:
        super().__init__()
        multiple("d_model", d_model, "head_dim", head_dim)
        at_least("d_state", d_state, 2)
        self.d_model, self.d_state, self.head_dim = d_model, d_state, head_dim
        self.qkv_proj = nn.Linear(d_model, 3 * d_model)
        self.shift = Shift(d_model, d_state)
        self.keep = DiagonalSSM(d_model // head_dim, d_state)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x: Seq) -> Seq:
        """Convolve twice, for the shift and for the diagonal system, both from a zero state."""
        q, k, v = self.qkv_proj(x).chunk(3, dim=-1)
        return self._out(q, self.keep(self._outer(self.shift(k, None), v)))

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Convolve the new tokens and add the outputs of the kept state; keep keys and the next state."""
        q, k, v = self.qkv_proj(x).chunk(3, dim=-1)
        past = k.new_zeros(k.shape[0], self.d_state - 1, self.d_model) if state is None else state.shift
        kv = self._outer(self.shift(k, past), v)
        answers = self.keep(kv)
        if state is not None:
            answers = answers + self.keep.read(state.kv, x.shape[1])
        shift = torch.cat([past, k], dim=1)[:, x.shape[1] :]
        return self._out(q, answers), State(shift, self.keep.advance(kv, None if state is None else state.kv))

    def state_size(self, seq_len: int) -> StateSize:
        """Count both states; the published d_model * d_state lacks the shift and the factor head_dim."""
        held = self.d_model * (self.d_state - 1) + self.head_dim * self.d_model * self.d_state
        return StateSize.read_whole(held, paper=self.d_model * self.d_state)

    def _outer(self, k: Seq, v: Seq) -> Float[Tensor, "B T C*C H"]:
        k, v = (s.unflatten(-1, (self.head_dim, -1)) for s in (k, v))
        return (k[..., :, None, :] * v[..., None, :, :]).flatten(2, 3)

    def _out(self, q: Seq, answers: Float[Tensor, "B T C*C H"]) -> Seq:
        q = q.unflatten(-1, (self.head_dim, -1))
        y = (q[..., None, :] * answers.unflatten(2, (self.head_dim, -1))).sum(2)
        return self.out_proj(y.flatten(2))
