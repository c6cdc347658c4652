"""LaCT adds to windowed softmax attention a network whose weights are updated once a large chunk.

Zhang et al. 2025, "Test-Time Training Done Right" (arXiv 2505.23884), the layer of its language models, read
in its public code.

B batch, T time, S tokens kept, D model width, H heads, C channels per head (H C == D), P scalars of f.
"""

from math import expm1, log
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple
from zoo.kernels.attention import attention
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.delta_heads import unit
from zoo.mixers.inner_model import packed, unpacked
from zoo.mixers.positions import check_position, rotate
from zoo.mixers.state import StateSize

A_CHUNK = 2.048  # sum of the initial rates of a chunk's tokens: 0.001 for each of 2,048


class State(NamedTuple):
    k: Float[Tensor, "B H S C"]
    v: Float[Tensor, "B H S C"]
    model: Float[Tensor, "B H P"] | None  # None in the first chunk: as learned
    momentum: Float[Tensor, "B H P"] | None  # the last update; None before there was one
    sums: Float[Tensor, "B H P"] | None  # of rate * gradient in the open chunk; None where none is open
    keep: Float[Tensor, "B H M"] | None  # sum of the open chunk's shares of momentum; M: 1 or 0
    offset: int


class LaCT(Mixer[State]):
    """Add to windowed attention a small gated network that is trained on the tokens, chunk by chunk:
    y_t = window(q, k, v)_t + scale_t RMSNorm(f(q_t)),  f(x) = (SiLU(x W0) * x W2) W1.

    After each chunk W <- W + dW,  dW = sum_t rate_t d<f(k_t), v_t>/dW + m dW of the chunk before, with
    gradients at the W with which the whole chunk was read.  Then each unit's weights are scaled back to the
    length that was learned.  m is the mean of sigmoid(x_t W_m); there is a rate for each matrix and head.  f
    sees unit(SiLU(a q + b)), the same of k, and SiLU(v).  Before all this q and k each pass an RMSNorm.

    expand: units of f over C.  chunk_size: tokens between two updates.  window: keys in view.
    momentum: false: m is 0.  position: none | rope, in the window and in f.
    Ours: the initial rates of a chunk sum to A_CHUNK, whatever its size; attention and f have the same heads.
    Left out: the update made orthogonal (Muon), and fast weights of low rank.
    """

    def __init__(
        self,
        *,
        d_model: int,
        num_heads: int,
        expand: int,
        chunk_size: int,
        window: int,
        momentum: bool,
        position: str,
        rope_base: float,
    ) -> None:
        super().__init__()
        multiple("d_model", d_model, "num_heads", num_heads)
        for name, value in (("expand", expand), ("chunk_size", chunk_size), ("window", window)):
            at_least(name, value, 1)
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        check_position(position, self.head_dim, 1.0, rope_base)
        self.chunk_size, self.window, self.position, self.rope_base = chunk_size, window, position, rope_base
        self.d_model, self.momentum, hidden = d_model, momentum, expand * self.head_dim
        shapes = [(self.head_dim, hidden), (hidden, self.head_dim), (self.head_dim, hidden)]
        self.inner = nn.ParameterList(
            nn.Parameter(torch.randn(num_heads, *shape) * shape[0] ** -0.5) for shape in shapes
        )
        self.inner_size = 3 * self.head_dim * hidden
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(d_model, eps=1e-5) for _ in range(2))
        self.slope = nn.Parameter(torch.ones(2, d_model))
        self.shift = nn.Parameter(torch.zeros(2, d_model))
        self.rates = nn.Linear(d_model, 3 * num_heads)
        nn.init.constant_(self.rates.bias, log(expm1(A_CHUNK / chunk_size)))
        self.keep = nn.Linear(d_model, num_heads) if momentum else None
        self.scale = nn.Linear(d_model, num_heads)
        self.norm = nn.RMSNorm(self.head_dim, eps=1e-5)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Attend to the window and read the fast weights; update them where a chunk ends."""
        empty = x.new_zeros(len(x), self.num_heads, 0, self.head_dim)
        state = State(empty, empty, None, None, None, None, 0) if state is None else state
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        held = self.norm.weight.dtype
        q, k = (norm(each.to(held)).to(v.dtype) for norm, each in zip(self.norms, (q, k), strict=True))
        wide = torch.promote_types(x.dtype, torch.float32)
        fast = [self._heads(a * each + b) for a, b, each in zip(self.slope, self.shift, (q, k), strict=True)]
        fast_q, fast_k = (self._turned(unit(F.silu(each)), state.offset) for each in fast)
        q, k, v = self._heads(q), self._heads(k), self._heads(v)
        keys = torch.cat([state.k, self._turned(k, state.offset)], dim=2)
        values = torch.cat([state.v, v], dim=2)
        y = attention(self._turned(q, state.offset), keys, values, self.window)
        kept = slice(max(0, keys.shape[2] - (self.window - 1)), None)
        state = state._replace(k=keys[:, :, kept], v=values[:, :, kept])
        rates = F.softplus(self.rates(x).to(wide)).transpose(1, 2)[..., None]
        shares = rates[:, : self.num_heads, :, :0]
        if self.keep is not None:
            shares = self.keep(x).to(wide).sigmoid().transpose(1, 2)[..., None]
        with torch.autocast(x.device.type, enabled=False):
            read, state = self._train((fast_q, fast_k, F.silu(v.to(wide)), rates, shares), state)
        scale = F.silu(self.scale(x)).transpose(1, 2)[..., None]
        y = y + scale * self.norm(read.to(self.norm.weight.dtype)).to(y.dtype)
        return self.out_proj(y.transpose(1, 2).flatten(2)), state

    def _heads(self, x: Seq) -> Float[Tensor, "B H T C"]:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def _turned(self, x: Float[Tensor, "B H T C"], offset: int) -> Float[Tensor, "B H T C"]:
        return rotate(x, offset, self.rope_base) if self.position == "rope" else x

    def _train(self, tokens: tuple[Tensor, ...], state: State) -> tuple[Tensor, State]:
        ys, done, length = [], 0, tokens[0].shape[2]
        while done < length:
            size = min(self.chunk_size - state.offset % self.chunk_size, length - done)
            q, k, v, rates, shares = (each[:, :, done : done + size] for each in tokens)
            weights = tuple(self.inner) if state.model is None else unpacked(state.model, self.inner)
            ys.append((F.silu(q @ weights[0]) * (q @ weights[2])) @ weights[1])
            sums = self._gradients(k, v, rates.chunk(3, dim=1), weights)
            keep = shares.sum(2)
            if state.sums is not None and state.keep is not None:
                sums, keep = state.sums + sums, state.keep + keep
            done, offset = done + size, state.offset + size
            state = state._replace(sums=sums, keep=keep, offset=offset)
            if offset % self.chunk_size == 0:
                state = self._updated(state, sums, keep)
        return torch.cat(ys, dim=2), state

    def _gradients(
        self, k: Tensor, v: Tensor, rates: tuple[Tensor, ...], weights: tuple[Tensor, ...]
    ) -> Float[Tensor, "B H P"]:
        """Sum each token's rate times the gradient of <f(k), v>."""
        gate, linear = k @ weights[0], k @ weights[2]
        share, back = gate.sigmoid(), v @ weights[1].mT
        parts = [
            (rates[0] * k).mT @ (back * linear * share * (1 + gate * (1 - share))),
            (rates[1] * gate * share * linear).mT @ v,
            (rates[2] * k).mT @ (back * gate * share),
        ]
        return packed(parts)

    def _updated(self, state: State, update: Tensor, keep: Tensor) -> State:
        """Return the state after a whole chunk."""
        if state.momentum is not None:
            update = update + keep / self.chunk_size * state.momentum
        model = packed(self.inner) if state.model is None else state.model
        moved = unpacked(model + update, self.inner)
        lengths = (torch.linalg.vector_norm(w, dim=-2, keepdim=True) for w in self.inner)
        model = [F.normalize(w, dim=-2, eps=1e-5) * n for w, n in zip(moved, lengths, strict=True)]
        return state._replace(
            model=packed(model), momentum=update if self.momentum else None, sums=None, keep=None
        )

    def state_size(self, seq_len: int) -> StateSize:
        """Count the window, an open chunk's gradients, and after the first chunk weights and last update."""
        moved, inside = min(1, seq_len // self.chunk_size), min(1, seq_len % self.chunk_size)
        model = moved * (2 if self.momentum else 1) + inside
        shares = inside if self.momentum else 0
        window = 2 * self.d_model * min(seq_len, self.window - 1)
        return StateSize.read_whole(self.num_heads * (self.inner_size * model + shares) + window)
