"""RWKV-4's time mix averages over the past by weights that decay with age, at a fixed rate per channel.

Peng et al. 2023, "RWKV: Reinventing RNNs for the Transformer Era" (arXiv 2305.13048), Section 3; initial
values of github.com/BlinkDL/RWKV-LM, RWKV-v4/src/model.py.

B batch, T time, D model width, E = expand * D inner width.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least
from zoo.kernels.wkv4 import Averages, wkv4
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.state import StateSize
from zoo.mixers.token_shift import Depth, TokenShift, channels, ramp
from zoo.mixers.undecayed import undecayed


class State(NamedTuple):
    last: Float[Tensor, "B D"]  # the last input, for the token shift
    averages: Averages


class RWKV4(Mixer[State]):
    """Average the values so far by weights that decay with age (`zoo.kernels.wkv4`), and gate the mean.

    layer, n_layers: set the initial values; key, receptance and output start at zero, as published.
    The shares of the shift, decay and bonus carry `no_weight_decay = True`, which training reads.
    """

    def __init__(self, *, d_model: int, expand: int, layer: int, n_layers: int) -> None:
        super().__init__()
        at_least("expand", expand, 1)
        self.d_model, self.d_inner = d_model, expand * d_model
        depth, place = Depth.of(layer, n_layers), channels(d_model)
        one_token = place**depth.early
        self.shift = TokenShift(
            1 - one_token, 1 - (one_token + 0.3 * depth.late), 1 - place ** (depth.early / 2)
        )
        self.key = nn.Linear(d_model, self.d_inner, bias=False)
        self.value = nn.Linear(d_model, self.d_inner, bias=False)
        self.receptance = nn.Linear(d_model, self.d_inner, bias=False)
        self.out_proj = nn.Linear(self.d_inner, d_model, bias=False)
        zigzag = (torch.arange(self.d_inner) + 1) % 3 - 1
        self.decay = nn.Parameter(-5 + 8 * ramp(self.d_inner) ** (0.7 + 1.3 * depth.late))
        self.bonus = nn.Parameter(math.log(0.3) + 0.5 * zigzag)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start key, receptance and output at zero and the value orthogonal."""
        for zero in (self.key, self.receptance, self.out_proj):
            nn.init.zeros_(zero.weight)
        nn.init.orthogonal_(self.value.weight, gain=math.sqrt(self.d_inner / self.d_model))
        undecayed(self.decay, self.bonus)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Carry the weighted averages through the new tokens; keep them and the last input."""
        last, averages = (None, None) if state is None else state
        (x_k, x_v, x_r), last = self.shift(x, last)
        wide = torch.promote_types(x.dtype, torch.float32)
        k, v = self.key(x_k).to(wide), self.value(x_v).to(wide)
        y, averages = wkv4(k, v, -self.decay.exp(), self.bonus, averages)
        y = torch.sigmoid(self.receptance(x_r)) * y
        return self.out_proj(y.to(x.dtype)), State(last, averages)

    def state_size(self, seq_len: int) -> StateSize:
        """Count sum, normaliser and maximum per channel, and the last input; there is no published count."""
        return StateSize.read_whole(self.d_model + 3 * self.d_inner)
