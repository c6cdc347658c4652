"""ScatterBrain: exact softmax weights in a window, random features for what is older, one denominator.

Chen et al. 2021, "Scatterbrain: Unifying Sparse and Low-rank Attention" (arXiv 2110.15343), Section 4.

B batch, T time, S tokens kept, D model width, H heads, C channels per head, F random features.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.checks import at_least
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.feature_maps import Performer
from zoo.mixers.projections import QueryKeyValue
from zoo.state import StateSize

CHUNK = 128


class State(NamedTuple):
    k: Float[Tensor, "B H S C"]  # S = min(seen, window - 1)
    v: Float[Tensor, "B H S C"]
    sum_v: Float[Tensor, "B H F C"]  # sum of phi(k) v^T over what has left the window
    sum_k: Float[Tensor, "B H F"]  # sum of phi(k)
    seen: int


class ScatterBrain(Mixer[State]):
    """y_t = sum over s of w_ts v_s / sum over s of w_ts, w_ts = exp(q_t k_s / sqrt C) for the `window` newest
    tokens (itself included) and its estimate phi(q_t) phi(k_s) (FAVOR+) for all older ones.

    What is older acts as one more token: its value the mean under phi, its logit the log of its weight; so
    the weights sum to one.  (zoology normalises the two parts by themselves: its rows sum to two.)
    num_features: F, drawn from `seed`.  position: none | rope, which turns queries and keys before phi too.
    Logits, features and sums are kept in float32 at least.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        window: int,
        num_features: int,
        seed: int = 0,
        position: str = "none",
        rope_base: float = 10000.0,
        rope_fraction: float = 1.0,
        bias: bool = False,
    ) -> None:
        super().__init__()
        at_least("window", window, 1)
        self.d_model, self.num_heads = d_model, num_heads
        self.window, self.num_features = window, num_features
        self.qkv = QueryKeyValue(d_model, num_heads, None, position, rope_base, rope_fraction, bias)
        self.map = Performer(self.qkv.head_dim, num_features, seed)
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        parts = self.qkv(x, offset=0 if state is None else state.seen)
        q, k, v = (part.to(torch.promote_types(part.dtype, torch.float32)) for part in parts)
        state, ys = self._start(k) if state is None else state, []
        with torch.autocast(x.device.type, enabled=False):
            for chunk in zip(q.split(CHUNK, 2), k.split(CHUNK, 2), v.split(CHUNK, 2), strict=True):
                y, state = self._chunk(*chunk, state)
                ys.append(y)
        y = torch.cat(ys, dim=2).to(x.dtype)
        return self.out_proj(y.transpose(1, 2).flatten(2)), state

    def _chunk(self, q: Tensor, k: Tensor, v: Tensor, state: State) -> tuple[Tensor, State]:
        k, v = torch.cat([state.k, k], dim=2), torch.cat([state.v, v], dim=2)
        phi_q, phi_k = self.map(q), self.map(k)
        age = torch.arange(k.shape[2], device=q.device)
        age = age[-q.shape[2] :, None] - age
        far = (phi_q @ phi_k.mT) * (age >= self.window)
        weight = far.sum(-1) + (phi_q @ state.sum_k[..., None])[..., 0]
        mean = (far @ v + phi_q @ state.sum_v) / weight.clamp(min=torch.finfo(weight.dtype).tiny)[..., None]
        near = (q @ k.mT / self.qkv.head_dim**0.5).masked_fill(
            (age < 0) | (age >= self.window), float("-inf")
        )
        p = torch.cat([near, safe_log(weight)[..., None]], dim=-1).softmax(-1)
        y = p[..., :-1] @ v + p[..., -1:] * mean
        left = max(0, k.shape[2] - self.window + 1)
        gone = phi_k[:, :, :left]
        sum_v, sum_k = state.sum_v + gone.mT @ v[:, :, :left], state.sum_k + gone.sum(2)
        return y, State(k[:, :, left:], v[:, :, left:], sum_v, sum_k, state.seen + q.shape[2])

    def _start(self, k: Tensor) -> State:
        sum_v = k.new_zeros(k.shape[0], self.num_heads, self.num_features, k.shape[3])
        return State(k[:, :, :0], k[:, :, :0], sum_v, sum_v[..., 0], 0)

    def state_size(self, seq_len: int) -> StateSize:
        sums = self.num_heads * self.num_features * (self.qkv.head_dim + 1)
        held = 2 * self.d_model * min(seq_len, self.window - 1) + sums
        return StateSize(paper=2 * self.d_model * self.window + sums, resident=held, touched=held)


def safe_log(x: Tensor) -> Tensor:
    """log x, and minus infinity without a gradient where x is zero."""
    zero = x <= 0
    return x.masked_fill(zero, 1.0).log().masked_fill(zero, float("-inf"))
