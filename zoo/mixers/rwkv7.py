"""RWKV-7's time mix decays a matrix per head by channel and runs a delta rule of learned keys and rates.

Peng et al. 2025, "RWKV-7 'Goose' with Expressive Dynamic State Evolution" (arXiv 2503.14456), Section 4;
initial values of github.com/BlinkDL/RWKV-LM, RWKV-v7/train_temp/src/model.py.

B batch, T time, D model width, H heads, C channels of a head.
"""

import math
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least
from zoo.kernels.dplr_delta_rule import dplr_delta_rule
from zoo.mixers.base import Linked, Links, Seq
from zoo.mixers.delta_heads import unit
from zoo.mixers.group_norm import HeadsGroupNorm
from zoo.mixers.heads import heads_of
from zoo.mixers.low_rank import LowRank
from zoo.mixers.rwkv5 import State
from zoo.mixers.state import StateSize
from zoo.mixers.token_shift import Depth, TokenShift, channels, ramp
from zoo.mixers.undecayed import undecayed

LOG_LEAST = -math.exp(-0.5)  # no channel keeps less than exp(this) = 0.545 of its past in a step
VALUE = "rwkv7_value"  # name of the lowest layer's values [B T D]
POWERS = (0.2, 0.9, 0.7, 0.7, 0.9, 0.2)  # of the lowest layer's shares 1 - (i / D)^p for r, w, k, v, a, g


class RWKV7(Linked[State]):
    """Decay a matrix state per head by channel, erase from it along a key kappa, and write to it:
    S_t = (diag(w_t) - (a_t kappa_t) kappa_t^T) S_{t-1} + k_t v_t^T,  y_t = S_t^T r_t  (the paper's S^T).

    head_dim: None is 64, or d_model where that is less.  rank: of the small networks that make w, a and the
    value residual, gate_rank: of the gate's; None is what RWKV-LM suggests for d_model.
    Layers above the first have a value residual: v moves towards the lowest layer's, by a share for each
    token and channel.  Alone, or as the lowest of its kind, such a layer has only its own v.
    Differs on purpose: kappa is brought to length 1 by a norm that is smooth around zero.
    """

    reads = leaves = (VALUE,)

    def __init__(
        self,
        *,
        d_model: int,
        head_dim: int | None,
        rank: int | None,
        gate_rank: int | None,
        layer: int,
        n_layers: int,
    ) -> None:
        super().__init__()
        num_heads, self.head_dim = heads_of("d_model", d_model, head_dim)
        at_least("head_dim", self.head_dim, 2)
        self.d_model, depth, place = d_model, Depth.of(layer, n_layers), channels(d_model)
        slope, zigzag = ramp(d_model) - 0.5, _zigzag(self.head_dim).repeat(num_heads)
        decay = -5.5 + 6 * ramp(d_model) ** (1 + depth.late**0.3) + 2.5 * zigzag
        network = partial(LowRank, d_model, fill=_orthogonal)
        self.shift = TokenShift(*(1 - place ** (p * depth.early) for p in POWERS))
        self.decay = network(_rank(rank, 2.5, d_model), decay, torch.tanh)
        self.rate = network(_rank(rank, 2.5, d_model), -0.19 + 0.3 * zigzag + 0.4 * slope)
        self.share = network(_rank(rank, 1.7, d_model), 0.73 - 0.4 * slope) if layer > 0 else None
        self.gate = network(_rank(gate_rank, 5.0, d_model), None, torch.sigmoid)
        self.receptance, self.key, self.value, self.out_proj = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(4)
        )
        self.k_k = nn.Parameter(0.71 - 0.1 * slope)
        self.k_a = nn.Parameter(torch.full((d_model,), 1.02))
        self.r_k = nn.Parameter(torch.full((d_model,), -0.04))
        self.norm = HeadsGroupNorm(d_model, self.head_dim, scale=((1 + layer) / n_layers) ** 0.7)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw orthogonal matrices; keys start small, the output at zero."""
        for linear, gain in ((self.receptance, 1.0), (self.key, 0.1), (self.value, 1.0)):
            nn.init.orthogonal_(linear.weight, gain)
        nn.init.zeros_(self.out_proj.weight)
        undecayed(self.k_k, self.k_a, self.r_k)

    def extend_linked(self, x: Seq, state: State | None, read: Links) -> tuple[Seq, State, Links]:
        """Run the generalised delta rule, with the lowest layer's values where `read` has them."""
        S, last = (None, None) if state is None else state
        (x_r, x_w, x_k, x_v, x_a, x_g), last = self.shift(x, last)
        v_here = self.value(x_v)
        left = {VALUE: v_here} | read
        v = v_here if self.share is None else v_here + (left[VALUE] - v_here) * torch.sigmoid(self.share(x_v))
        r, k, v, w, a = self._heads(self.receptance(x_r), self.key(x_k), v, self.decay(x_w), self.rate(x_a))
        k_k, k_a, r_k = self._heads(self.k_k[None], self.k_a[None], self.r_k[None])
        a, kappa = torch.sigmoid(a), unit(k * k_k)
        k = k * (1 + (a - 1) * k_a)
        y, S = dplr_delta_rule(r, k, v, -kappa, a * kappa, LOG_LEAST * torch.sigmoid(w), S)
        now = ((r * k * r_k).sum(-1, keepdim=True) * v).transpose(1, 2).flatten(2)
        y = (self.norm(y) + now) * self.gate(x_g)
        return self.out_proj(y.to(x.dtype)), State(S, last), left

    def _heads(self, *parts: Float[Tensor, "*B T D"]) -> list[Float[Tensor, "*B H T C"]]:
        """Split into heads, in float32 at least."""
        wide = (s.to(torch.promote_types(s.dtype, torch.float32)) for s in parts)
        return [s.unflatten(-1, (-1, self.head_dim)).transpose(-3, -2) for s in wide]

    def state_size(self, seq_len: int) -> StateSize:
        """Count a matrix per head and the last input, which the published count leaves out."""
        paper = self.d_model * self.head_dim
        return StateSize.read_whole(paper + self.d_model, paper=paper)


def _rank(given: int | None, factor: float, d_model: int) -> int:
    return max(32, round(factor * d_model**0.5 / 32) * 32) if given is None else given


def _zigzag(head_dim: int) -> Float[Tensor, "C"]:
    """Return a curve from -1 to 1 that is flat in the middle."""
    line = torch.linspace(-1, 1, head_dim)
    return line * line.abs()


def _orthogonal(up: Tensor) -> None:
    nn.init.orthogonal_(up, gain=0.1 * max(1.0, up.shape[0] / up.shape[1]) ** 0.5)
