"""RWKV-6 makes the decay and the token shift of RWKV-5's time mix depend on the token.

Peng et al. 2024, "Eagle and Finch: RWKV with Matrix-Valued States and Dynamic Recurrence" (arXiv 2404.05892),
Section 4; initial values of github.com/BlinkDL/RWKV-LM, RWKV-v5/src/model.py (x060).

B batch, T time, D model width, H heads, C channels of a head, R rank, J = 5 mixtures.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.low_rank import LowRank
from zoo.mixers.rwkv5 import State
from zoo.mixers.state import StateSize
from zoo.mixers.token_shift import Depth, channels, with_previous
from zoo.mixers.undecayed import undecayed
from zoo.mixers.wkv_heads import WkvHeads, initial_decay

UP = 0.01  # the second matrices of the small networks start in U(-UP, UP)


class DynamicShift(nn.Module):
    """Mix each token with the one before it, by shares that depend on the token:
    x_t + (x_{t-1} - x_t) (share_j + (tanh(z_t down) up)_j), where z is x shifted by a share of its own.

    shares: z's share [D], then that of each mixture.  All parameters carry `no_weight_decay = True`.
    """

    def __init__(self, *shares: Float[Tensor, "D"], rank: int) -> None:
        super().__init__()
        at_least("shift_rank", rank, 1)
        (d_model,), mixtures = shares[0].shape, len(shares) - 1
        self.first_share, self.share = nn.Parameter(shares[0]), nn.Parameter(torch.stack(shares[1:]))
        self.down = nn.Parameter(torch.zeros(d_model, mixtures * rank))
        self.up = nn.Parameter(torch.empty(mixtures, rank, d_model).uniform_(-UP, UP))
        undecayed(*self.parameters())

    def forward(self, x: Seq, last: Float[Tensor, "B D"] | None) -> tuple[list[Seq], Float[Tensor, "B D"]]:
        """Return the mixtures, whose shares depend on the token, and the last input."""
        change, last = with_previous(x, last)
        low = torch.tanh((x + change * self.first_share) @ self.down).chunk(len(self.up), dim=-1)
        parts = zip(self.share, self.up, low, strict=True)
        return [x + change * (share + small @ up) for share, up, small in parts], last


class RWKV6(Mixer[State]):
    """Mix tokens with a matrix state per head, whose key channels decay at rates set by the token:
    S_t = diag(w_t) S_{t-1} + k_t v_t^T,  y_t = (S_{t-1} + diag(bonus) k_t v_t^T)^T r_t, where
    w_t = exp(-exp(decay + tanh(x_w down) up)).

    head_dim: C; None is 64, or d_model where that is less.  shift_rank, decay_rank: of the networks of shift
    and w.  layer, n_layers: for initial values.  All but the heads' matrices carry `no_weight_decay = True`.
    """

    def __init__(
        self,
        *,
        d_model: int,
        head_dim: int | None,
        shift_rank: int,
        decay_rank: int,
        layer: int,
        n_layers: int,
    ) -> None:
        super().__init__()
        at_least("decay_rank", decay_rank, 1)
        depth, place = Depth.of(layer, n_layers), channels(d_model)
        r, k = 1 - place ** (depth.early / 2), 1 - place**depth.early
        self.shift = DynamicShift(k, k, r, k, k - 0.3 * depth.late, r, rank=shift_rank)  # z, w, r, k, v, g
        self.decay = LowRank(
            d_model,
            decay_rank,
            base=initial_decay(d_model, depth),
            f=torch.tanh,
            fill=lambda up: nn.init.uniform_(up, -UP, UP),
        )
        self.heads = WkvHeads(d_model, head_dim, layer, n_layers)
        self.d_model, self.head_dim = d_model, self.heads.head_dim

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Run the heads with decays that depend on the token; keep their matrices and the last input."""
        S, last = (None, None) if state is None else state
        (x_w, *shifted), last = self.shift(x, last)
        w = self.decay(x_w)
        y, S = self.heads(*shifted, -w.to(torch.promote_types(w.dtype, torch.float32)).exp(), S)
        return y, State(S, last)

    def state_size(self, seq_len: int) -> StateSize:
        """Count a matrix per head, and the last input; there is no published count."""
        return StateSize.read_whole(self.d_model * self.head_dim + self.d_model)
