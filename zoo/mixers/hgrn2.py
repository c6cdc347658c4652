"""HGRN2 makes the keys of gated linear attention from its forget gates, and puts a floor under the gates.

Qin et al. 2024, "HGRN2: Gated Linear RNNs with State Expansion" (arXiv 2404.07904), Section 3; the floor is
HGRN's (arXiv 2311.04823), Section 3.2.

B batch, T time, D model width, H heads, K gates per head, V channels of a value (H V == D).
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple
from zoo.kernels.gated_linear_attention import gated_linear_attention
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.state import StateSize
from zoo.mixers.undecayed import undecayed


class State(NamedTuple):
    kv: Float[Tensor, "B H K V"]


class HGRN2(Mixer[State]):
    """Decay a matrix per head by the token's forget gates, and take one minus the gates as the key:
    S_t = diag(a_t) S_{t-1} + (1 - a_t) v_t^T, y_t = silu(q_t)^T S_t, a = floor + (1 - floor) sigmoid(f).

    All channels of y go through one RMSNorm; queries take the place of HGRN's output gate.
    feature_dim: K; None: V, as in the paper, which calls it "expansion ratio".
    layer, n_layers: the floor of a channel starts at layer / n_layers and is then learned; the lowest layer
    has none.  (In the paper one softmax over layers makes all floors, which keeps them in order; here a
    layer's are its own, without weight decay.)
    """

    def __init__(
        self, *, d_model: int, num_heads: int, feature_dim: int | None, layer: int, n_layers: int
    ) -> None:
        super().__init__()
        multiple("d_model", d_model, "num_heads", num_heads)
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        self.feature_dim = self.head_dim if feature_dim is None else feature_dim
        at_least("feature_dim", self.feature_dim, 1)
        if not 0 <= layer < n_layers:
            raise ValueError(f"layer (={layer}) must be between 0 and n_layers - 1 (={n_layers - 1}).")
        gates = num_heads * self.feature_dim
        self.q, self.f = (nn.Linear(d_model, gates, bias=False) for _ in range(2))
        self.v = nn.Linear(d_model, d_model, bias=False)
        self.floor_logit = None
        if layer > 0:
            self.floor_logit = nn.Parameter(torch.full((gates,), math.log(layer / (n_layers - layer))))
            undecayed(self.floor_logit)
        self.norm = nn.RMSNorm(d_model, eps=1e-5)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Run gated linear attention with keys 1 - a; keep each head's matrix."""
        kv = None if state is None else state.kv
        wide = torch.promote_types(x.dtype, torch.float32)
        q, f, v = self.q(x).to(wide), self.f(x).to(wide), self.v(x)
        with torch.autocast(x.device.type, enabled=False):
            log_decay, k = self._gates(f)
            parts = (
                s.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for s in (F.silu(q), k, v, log_decay)
            )
            y, kv = gated_linear_attention(*parts, state=kv)
            y = self.norm(y.to(wide).transpose(1, 2).flatten(2))
        return self.out_proj(y.to(x.dtype)), State(kv)

    def _gates(self, f: Float[Tensor, "B T HK"]) -> tuple[Float[Tensor, "B T HK"], Float[Tensor, "B T HK"]]:
        """Return log a and 1 - a, neither through a difference that would round to 0."""
        if self.floor_logit is None:
            return F.logsigmoid(f), torch.sigmoid(-f)
        above = F.logsigmoid(-self.floor_logit) + F.logsigmoid(f)
        log_decay = torch.logaddexp(F.logsigmoid(self.floor_logit), above).clamp(
            max=0
        )  # it may round up to 1e-16
        return log_decay, torch.sigmoid(-self.floor_logit) * torch.sigmoid(-f)

    def state_size(self, seq_len: int) -> StateSize:
        """Count a matrix of gates by value channels per head."""
        held = self.num_heads * self.feature_dim * self.head_dim
        return StateSize.read_whole(held, paper=held)
