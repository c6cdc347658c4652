"""B'MOJO adds to windowed attention a fading memory (a state space) and an eidetic one (a few exact tokens).

Zancato et al., "B'MOJO: Hybrid State Space Realizations of Foundation Models with Eidetic and Fading Memory"
(arXiv 2407.06324).

B batch, T time, S in-context, R fading and E eidetic tokens kept, D model width, H query heads, G key/value
heads, C channels per head.  Keys and values are stacked: the 2 in [B 2 G S C].
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least
from zoo.kernels.common.heads import per_query_head
from zoo.kernels.masked_attention import masked_attention
from zoo.mixers import mamba
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.eidetic import Eidetic, EideticMemory, ages
from zoo.mixers.projections import QueryKeyValue
from zoo.mixers.state import StateSize

BAND = 64  # queries at a time


class State(NamedTuple):
    ssm: mamba.State | None  # None before the first token
    near: Float[Tensor, "B 2 G S C"]  # S = min(offset, window - 1)
    fading: Float[Tensor, "B 2 G R C"]  # R = min(offset, 2 window - 1): the youngest are not in view yet
    eidetic: Eidetic | None  # E = min(num_eidetic, offset - S)
    offset: int

    selects = ("candidates", "inputs")  # they decide which tokens are kept; only kept tokens have a gradient


class BMojo(Mixer[State]):
    """Attend in one softmax to a window of tokens, Mamba's outputs before it, and a few older tokens:
    token i attends to the tokens i - window + 1 .. i, to Mamba's outputs at i - 2 window + 1 .. i - window
    (fading tokens), and to num_eidetic tokens from before its window.

    num_eidetic: 0 is B'MOJO-F.  Otherwise those tokens are kept from before the window that were predicted
        worst from the predictor_size tokens before each (their innovation; `zoo.mixers.eidetic`, ours).
    tie_projections: the keys and values of fading tokens come from the same weights as the others'.  Tied or
        not, fading tokens are normed first (ours): Mamba's outputs grow with the cube of its inputs.
    d_state, expand and kernel_size are Mamba's; the rest as in `zoo.mixers.attention`.
    """

    def __init__(
        self,
        *,
        d_model: int,
        num_heads: int,
        window: int,
        num_eidetic: int = 0,
        predictor_size: int = 4,
        tie_projections: bool,
        d_state: int,
        expand: int,
        kernel_size: int,
        num_kv_heads: int | None,
        position: str,
        rope_base: float,
        rope_fraction: float,
        bias: bool,
    ) -> None:
        super().__init__()
        at_least("window", window, 1)
        at_least("num_eidetic", num_eidetic, 0)
        self.d_model, self.window = d_model, window
        self.num_eidetic, self.predictor_size = num_eidetic, predictor_size
        self.ssm = mamba.Mamba(
            d_model=d_model, d_state=d_state, expand=expand, kernel_size=kernel_size, dt_rank=None, n_layers=1
        )
        self.qkv = QueryKeyValue(d_model, num_heads, num_kv_heads, position, rope_base, rope_fraction, bias)
        self.d_inner, self.d_state, self.kernel_size = self.ssm.d_inner, d_state, kernel_size
        self.kv_dim = self.qkv.kv_dim
        self.fading_norm = nn.RMSNorm(d_model, eps=1e-5)
        self.fading_proj = None if tie_projections else nn.Linear(d_model, 2 * self.kv_dim, bias=bias)
        self.memory = EideticMemory(d_model, window, num_eidetic, predictor_size) if num_eidetic else None
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Run Mamba, then attend band by band; keep what each token of a band needs of those before it."""
        q, k, v = self.qkv(x, offset=0 if state is None else state.offset)
        state = self._start(x, k) if state is None else state
        faded, ssm = self.ssm.extend(x, state.ssm)
        near, fading, ys = torch.stack([k, v], dim=1), self._fading(faded, state.offset), []
        bands = (q.split(BAND, 2), near.split(BAND, 3), fading.split(BAND, 3), x.split(BAND, 1))
        for band in zip(*bands, strict=True):
            y, state = self._band(*band, state)
            ys.append(y)
        y = torch.cat(ys, dim=2).transpose(1, 2).flatten(2)
        return self.out_proj(y), state._replace(ssm=ssm, offset=state.offset + x.shape[1])

    def _band(
        self, q: Tensor, near: Tensor, fading: Tensor, x: Tensor, state: State
    ) -> tuple[Float[Tensor, "B H T C"], State]:
        """Return the attention of a few tokens, and the state with their keys and values."""
        near, fading = torch.cat([state.near, near], dim=3), torch.cat([state.fading, fading], dim=3)
        age, old = ages(q.shape[2], near), ages(q.shape[2], fading) - self.window
        mask = torch.cat([(age >= 0) & (age < self.window), (old >= 0) & (old < self.window)], dim=1)
        keys, eidetic = near, None
        if self.memory is not None and state.eidetic is not None:
            keys, mask, eidetic = self.memory(x, near, mask, state.eidetic)
        y = _attend(q, torch.cat([keys, fading], dim=3), mask)
        near = near[:, :, :, max(0, near.shape[3] - self.window + 1) :]
        fading = fading[:, :, :, max(0, fading.shape[3] - 2 * self.window + 1) :]
        return y, state._replace(near=near, fading=fading, eidetic=eidetic)

    def _fading(self, faded: Seq, offset: int) -> Float[Tensor, "B 2 G T C"]:
        linear = self.qkv.proj if self.fading_proj is None else self.fading_proj
        size = 2 * self.kv_dim
        faded = self.fading_norm(faded.to(self.fading_norm.weight.dtype))
        kv = F.linear(faded, linear.weight[-size:], None if linear.bias is None else linear.bias[-size:])
        k, v = kv.unflatten(-1, (2, self.qkv.num_kv_heads, -1)).permute(2, 0, 3, 1, 4)
        if self.qkv.position == "rope":
            k = self.qkv.turned(k, offset)
        return torch.stack([k, v], dim=1)

    def _start(self, x: Seq, k: Float[Tensor, "B G T C"]) -> State:
        none = torch.stack([k, k], dim=1)[:, :, :, :0]
        return State(None, none, none, None if self.memory is None else self.memory.start(x, none), 0)

    def state_size(self, seq_len: int) -> StateSize:
        """Count all parts; a step reads all but the fading tokens that are not in view yet."""
        near, old = min(seq_len, self.window - 1), max(0, seq_len - self.window + 1)
        read = self.ssm.state_size(seq_len).resident + 2 * self.kv_dim * (near + min(old, self.window))
        if self.memory is not None:
            read += near + self.memory.size(old, 2 * self.kv_dim)
        waiting = min(seq_len, 2 * self.window - 1) - min(old, self.window)
        return StateSize(paper=None, resident=read + 2 * self.kv_dim * waiting, touched=read)


def _attend(q: Float[Tensor, "B H T C"], kv: Float[Tensor, "B 2 G S C"], mask: Tensor) -> Tensor:
    k, v = (per_query_head(part, q.shape[1]) for part in kv.unbind(1))
    return masked_attention(q, k, v, mask if mask.dtype == torch.bool else mask.to(q.dtype))
