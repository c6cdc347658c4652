"""Mamba-3 gives Mamba-2 a trapezoidal step and a state that turns, in place of the short convolution.

Lahoti et al. 2026, "Mamba-3: Improved Sequence Modeling using State Space Principles" (arXiv 2603.15569), in
its single-input single-output form, with the details and initial values of the authors' code as released
(github.com/state-spaces/mamba, 5235bdc, March 2026); c69aaab (June 2026) made `decay_activation` heavy_tail.

B batch, T time, D model width, E = expand * D inner width, H heads of P channels (E = H P), N state
dimension, R pairs of state channels that turn.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, one_of
from zoo.kernels.gated_linear_attention import gated_linear_attention
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.heads import heads_of
from zoo.mixers.mamba import first_dt_bias
from zoo.mixers.state import StateSize
from zoo.mixers.undecayed import undecayed

SLOWEST = 1e-4  # the least that -A can be


def heavy_tail(x: Tensor) -> Tensor:
    """Return 1 + x where x > 0, else 1 / (1 - x): smooth at 0, and never flat."""
    return x.clamp(min=0) + (1 - x.clamp(max=0)).reciprocal()


ACTIVATIONS = {"softplus": F.softplus, "heavy_tail": heavy_tail}


class State(NamedTuple):
    h: Float[Tensor, "B H N P"]
    k: Float[Tensor, "B H N"]  # the last token's input map, turned
    v: Float[Tensor, "B H P"]  # and its input; its part of the next step is still to be written
    angle: Float[Tensor, "B H R"]


class Mamba3(Mixer[State]):
    """Write a token in its own step and in the next, into a state per head that decays and turns:
    h_t = a_t h_{t-1} + (1 - l_t) dt_t a_t k_{t-1} v_{t-1}^T + l_t dt_t k_t v_t^T, a_t = exp(dt_t A_t),
    and y_t = q_t^T h_t + D v_t, with one a, dt and l in (0, 1) per head, all functions of the token.

    k and q are the normalised maps B and C plus a bias per head.  Their first 2R channels are turned, pair by
    pair, by the sum of dt_s pi tanh(theta_s) over the tokens s up to t, which amounts to turning the state.

    rope_fraction: share of the state channels that turn, 1 at most.  head_dim, n_layers: as in Mamba2.
    decay_activation: maps a projection x to -A: softplus, or heavy_tail, which is 1 + x where x > 0, else
        1 / (1 - x), and which the authors found more stable at high learning rates.
    dt_bias and D carry `no_weight_decay = True`.
    """

    def __init__(
        self,
        *,
        d_model: int,
        d_state: int,
        expand: int,
        head_dim: int | None,
        rope_fraction: float,
        n_layers: int,
        decay_activation: str,
    ) -> None:
        super().__init__()
        one_of("decay_activation", decay_activation, tuple(ACTIVATIONS))
        self.decay_activation = ACTIVATIONS[decay_activation]
        for name, value in (("d_state", d_state), ("expand", expand), ("n_layers", n_layers)):
            at_least(name, value, 1)
        self.d_model, self.d_state, self.n_layers = d_model, d_state, n_layers
        self.d_inner = expand * d_model
        self.num_heads, self.head_dim = heads_of("expand * d_model", self.d_inner, head_dim)
        self.turning = int(d_state * rope_fraction) // 2
        if rope_fraction > 1 or self.turning < 1:
            raise ValueError(f"rope_fraction * d_state (={rope_fraction} * {d_state}) must be in 2..d_state.")
        self.sizes = [self.d_inner, self.d_inner, d_state, d_state, *3 * [self.num_heads], self.turning]
        self.in_proj = nn.Linear(d_model, sum(self.sizes), bias=False)
        self.dt_bias, self.D = (nn.Parameter(torch.empty(self.num_heads)) for _ in range(2))
        self.B_norm, self.C_norm = (nn.RMSNorm(d_state, eps=1e-5) for _ in range(2))
        self.B_bias, self.C_bias = (nn.Parameter(torch.ones(self.num_heads, 1, d_state)) for _ in range(2))
        self.out_proj = nn.Linear(self.d_inner, d_model, bias=False)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw step sizes as Mamba does; D starts at one."""
        self.dt_bias.copy_(first_dt_bias(self.num_heads))
        nn.init.ones_(self.D)
        self.out_proj.weight.div_(math.sqrt(self.n_layers))
        undecayed(self.dt_bias, self.D)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Turn keys and queries and scan; keep the state, the last key and value, and the angles."""
        made = self.in_proj(x)
        with torch.autocast(x.device.type, enabled=False):
            wide = made.to(torch.promote_types(x.dtype, torch.float32))
            gate, v, B, C, dt, A, share, theta = wide.split(self.sizes, dim=-1)
            v = v.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            k, q = self.B_norm(B)[:, None] + self.B_bias, self.C_norm(C)[:, None] + self.C_bias
            dt = F.softplus(dt + self.dt_bias).mT
            angle = self._angle(dt, theta, state)
            k, q = turned(k, angle), turned(q, angle)
            log_decay = -self.decay_activation(A).clamp(min=SLOWEST).mT * dt
            y, h = trapezoidal(q, k, v, dt, torch.sigmoid(share).mT, log_decay, state, made.dtype)
            y = (y + self.D[:, None, None] * v).transpose(1, 2).flatten(2) * F.silu(gate)
        return self.out_proj(y.to(made.dtype)), State(h, k[:, :, -1], v[:, :, -1], angle[:, :, -1])

    def _angle(
        self, dt: Float[Tensor, "B H T"], theta: Float[Tensor, "B T R"], state: State | None
    ) -> Float[Tensor, "B H T R"]:
        """Return the angle at each token, without whole turns: a growing sum would lose precision."""
        steps = (dt[..., None] * (math.pi * torch.tanh(theta))[:, None]).remainder(2 * math.pi)
        angle = steps.cumsum(-2)
        return (angle if state is None else angle + state.angle[:, :, None]).remainder(2 * math.pi)

    def state_size(self, seq_len: int) -> StateSize:
        """Count a head's matrix, its last key and value, and its angles."""
        held = self.num_heads * (self.d_state * (self.head_dim + 1) + self.head_dim + self.turning)
        return StateSize.read_whole(held)


def turned(x: Float[Tensor, "B H T N"], angle: Float[Tensor, "B H T R"]) -> Float[Tensor, "B H T N"]:
    """Turn channels 2i and 2i + 1 together by angle i; those beyond 2R stay."""
    pairs, still = x[..., : 2 * angle.shape[-1]], x[..., 2 * angle.shape[-1] :]
    first, second = pairs.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = angle.cos(), angle.sin()
    pairs = torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1).flatten(-2)
    return torch.cat([pairs, still], dim=-1)


def trapezoidal(
    q: Float[Tensor, "B H T N"],
    k: Float[Tensor, "B H T N"],
    v: Float[Tensor, "B H T P"],
    dt: Float[Tensor, "B H T"],
    here: Float[Tensor, "B H T"],
    log_decay: Float[Tensor, "B H T"],
    state: State | None,
    dtype: torch.dtype,
) -> tuple[Float[Tensor, "B H T P"], Float[Tensor, "B H N P"]]:
    """Run gated linear attention that writes a token's whole share of the state one token later.

    dtype: of the values as projected, in which a kernel may multiply.
    here: l, the token's share of its own step; 1 - l is the share of the token before, which, like the step,
    is known only now.  Therefore the part that a token writes for itself is added to its output separately.
    """
    first_k, first_v = (None, None) if state is None else (state.k, state.v)
    mine, before = here * dt, (1 - here) * dt + F.pad(here * dt, (1, 0))[..., :-1]
    late = (log_decay.exp() * before)[..., None] * delayed(k, first_k)
    values = delayed(v, first_v).to(dtype)
    y, h = gated_linear_attention(q, late, values, log_decay, None if state is None else state.h)
    written = mine[..., None] * k
    return y + (q * written).sum(-1, keepdim=True) * v, h + written[..., -1, :, None] * v[..., -1, None, :]


def delayed(x: Float[Tensor, "B H T C"], first: Float[Tensor, "B H C"] | None) -> Float[Tensor, "B H T C"]:
    """Return `x` one token later, with `first` (None: zeros) in front."""
    first = torch.zeros_like(x[:, :, 0]) if first is None else first
    return torch.cat([first[:, :, None], x[:, :, :-1]], dim=2)
