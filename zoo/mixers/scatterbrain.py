"""ScatterBrain takes exact softmax weights in a window, random features before it, and one denominator.

Chen et al. 2021, "Scatterbrain: Unifying Sparse and Low-rank Attention" (arXiv 2110.15343), Section 4.

B batch, T time, S tokens kept, D model width, H heads, C channels per head, F random features.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least
from zoo.mixers import log_sums
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.feature_maps import Performer
from zoo.mixers.projections import QueryKeyValue
from zoo.mixers.state import StateSize

CHUNK = 128


class State(NamedTuple):
    k: Float[Tensor, "B H S C"]  # S = min(offset, window - 1)
    v: Float[Tensor, "B H S C"]
    older: log_sums.Sums | None  # of the tokens that left the window; None: no token yet
    offset: int


class ScatterBrain(Mixer[State]):
    """Attend exactly to the newest tokens and by random features to all older ones, in one softmax:
    y_t = sum over s of w_ts v_s / sum over s of w_ts, w_ts = exp(q_t k_s / sqrt C) for the `window` newest
    tokens (itself included) and its estimate phi(q_t) phi(k_s) (FAVOR+) for all older ones.

    The older tokens act as one more token: its value is their mean under phi, its logit the log of their
    weight.  So the weights sum to one.  (zoology normalises the two parts separately: its rows sum to two.)
    num_features: F, drawn from `seed`.  position: none | rope, which turns queries and keys before phi too.
    Logits and sums are kept in float32 at least, the sums as `zoo.mixers.log_sums` has them.
    """

    small_out = True

    def __init__(
        self,
        *,
        d_model: int,
        num_heads: int,
        window: int,
        num_features: int,
        seed: int,
        position: str,
        rope_base: float,
        rope_fraction: float,
        bias: bool,
    ) -> None:
        super().__init__()
        at_least("window", window, 1)
        self.d_model, self.num_heads = d_model, num_heads
        self.window, self.num_features = window, num_features
        self.qkv = QueryKeyValue(d_model, num_heads, None, position, rope_base, rope_fraction, bias)
        self.map = Performer(self.qkv.head_dim, num_features, seed)
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Attend to the window and to the mean of all before it; keep the window and the older sums."""
        offset = 0 if state is None else state.offset
        q, k, v = (p.to(torch.promote_types(p.dtype, torch.float32)) for p in self.qkv(x, offset=offset))
        older = None if state is None else state.older
        if state is not None:
            k, v = torch.cat([state.k, k], dim=2), torch.cat([state.v, v], dim=2)
        left = max(0, k.shape[2] - self.window + 1)
        with torch.autocast(x.device.type, enabled=False):
            mean, log_weight, older = self._older(q, k[:, :, :left], v[:, :, :left], older)
            y = torch.cat([*self._read(q, k, v, mean, log_weight)], dim=2).to(x.dtype)
        state = State(k[:, :, left:], v[:, :, left:], older, offset + x.shape[1])
        return self.out_proj(y.transpose(1, 2).flatten(2)), state

    def _older(
        self, q: Float[Tensor, "B H T C"], k: Tensor, v: Tensor, before: log_sums.Sums | None
    ) -> tuple[Float[Tensor, "B H T C"], Float[Tensor, "B H T"], log_sums.Sums | None]:
        """Return for each query the mean of the values before its window and the log of their weight.

        k, v: of the tokens that leave the window, one after each of the last queries.  The third result is
        the older sums with these tokens added.
        """
        left, after = k.shape[2], before
        means, logs = [torch.zeros_like(q[:, :, left:])], [q.new_full(q[:, :, left:, 0].shape, -torch.inf)]
        if left:
            a = self.map.exponents(q[:, :, -left:])
            if before is None:
                mean, log = torch.zeros_like(q[:, :, :1]), q.new_full(q[:, :, :1, 0].shape, -torch.inf)
            else:
                share, log = log_sums.shares(a[:, :, :1], before.log_z[:, :, None], 0.0)
                mean = share @ before.mean
            readers = torch.cat([a[:, :, 1:], a[:, :, -1:]], dim=2)  # the last is of the next call
            later, later_log, after = log_sums.attend(readers, self.map.exponents(k), v, 0.0, before)
            means += [mean, later[:, :, :-1]]
            logs += [log, later_log[:, :, :-1]]
        log_weight = torch.cat(logs, dim=2) - math.log(self.num_features)
        return torch.cat(means, dim=2), log_weight, after

    def _read(
        self, q: Tensor, k: Tensor, v: Tensor, mean: Tensor, log_weight: Tensor
    ) -> Iterator[Float[Tensor, "B H S C"]]:
        """Yield the outputs of `CHUNK` queries at a time; the last query is at the last key."""
        for start in range(0, q.shape[2], CHUNK):
            here = slice(start, start + CHUNK)
            stop = k.shape[2] - q.shape[2] + min(start + CHUNK, q.shape[2])
            q_n = q[:, :, here]
            in_view = slice(max(0, stop - q_n.shape[2] - self.window + 1), stop)
            age = torch.arange(k[:, :, in_view].shape[2], device=q.device)
            age = age[-q_n.shape[2] :, None] - age
            near = q_n @ k[:, :, in_view].mT / self.qkv.head_dim**0.5
            near = near.masked_fill((age < 0) | (age >= self.window), -torch.inf)
            p = torch.cat([near, log_weight[:, :, here, None]], dim=-1).softmax(-1)
            yield p[..., :-1] @ v[:, :, in_view] + p[..., -1:] * mean[:, :, here]

    def state_size(self, seq_len: int) -> StateSize:
        """Count the window's keys and values, and the sums once a token has left it."""
        sums = self.num_heads * self.num_features * (self.qkv.head_dim + 1)
        held = 2 * self.d_model * min(seq_len, self.window - 1) + (sums if seq_len >= self.window else 0)
        return StateSize.read_whole(held, paper=2 * self.d_model * self.window + sums)
