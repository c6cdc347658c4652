"""RWKV-5's time mix keeps a matrix per head, each key channel of which decays at a fixed rate.

Peng et al. 2024, "Eagle and Finch: RWKV with Matrix-Valued States and Dynamic Recurrence" (arXiv 2404.05892),
Section 4; initial values of github.com/BlinkDL/RWKV-LM, RWKV-v5/src/model.py (x052).

B batch, T time, D model width, H heads, C channels of a head.
"""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from zoo.mixers.base import Mixer, Seq
from zoo.mixers.state import StateSize
from zoo.mixers.token_shift import Depth, TokenShift, channels
from zoo.mixers.undecayed import undecayed
from zoo.mixers.wkv_heads import WkvHeads, initial_decay


class State(NamedTuple):
    S: Float[Tensor, "B H C C"]
    last: Float[Tensor, "B D"]  # the last input, for the token shift


class RWKV5(Mixer[State]):
    """Mix tokens with a matrix state per head, whose key channels decay at fixed, learned rates:
    S_t = diag(exp(-exp(decay))) S_{t-1} + k_t v_t^T,  y_t = (S_{t-1} + diag(bonus) k_t v_t^T)^T r_t.

    head_dim: C; None is 64, or d_model where that is less.  layer, n_layers: for the initial values.
    All but the matrices carry `no_weight_decay = True`, which training reads.
    """

    def __init__(self, *, d_model: int, head_dim: int | None, layer: int, n_layers: int) -> None:
        super().__init__()
        depth, place = Depth.of(layer, n_layers), channels(d_model)
        r, k = place ** (depth.early / 2), place**depth.early
        self.shift = TokenShift(1 - r, 1 - k, 1 - (k + 0.3 * depth.late), 1 - r)
        self.decay = nn.Parameter(initial_decay(d_model, depth))
        undecayed(self.decay)
        self.heads = WkvHeads(d_model, head_dim, layer, n_layers)
        self.d_model, self.head_dim = d_model, self.heads.head_dim

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Run the heads with each channel's fixed decay; keep their matrices and the last input."""
        S, last = (None, None) if state is None else state
        shifted, last = self.shift(x, last)
        y, S = self.heads(*shifted, (-self.decay.exp()).expand(x.shape), S)
        return y, State(S, last)

    def state_size(self, seq_len: int) -> StateSize:
        """Count a matrix per head, and the last input; there is no published count."""
        return StateSize.read_whole(self.d_model * self.head_dim + self.d_model)
