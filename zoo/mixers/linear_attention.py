"""Causal linear attention keeps a sum over the past of features times values, whose size is fixed.

B batch, T time, D model width, H heads, C channels of a query or key, F features of it (`feature_maps`),
V channels of a value (H * V == D).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple, one_of, positive
from zoo.kernels.common.precision import wide
from zoo.kernels.linear_attention.reference import sums_before
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.feature_maps import FeatureMap
from zoo.mixers.state import StateSize

FASTEST = -3  # c: the first head keeps 1 - 2^-3 of its sums per step, each further head forgets half as much


class Fade(NamedTuple):
    """Hold powers of the heads' decay rates gamma over a chunk of T tokens."""

    between: Float[Tensor, "H T T"]  # gamma^(i - j) for j <= i, else zero
    since: Float[Tensor, "H T 1"]  # gamma^(i + 1): the sums before the chunk, at token i
    until: Float[Tensor, "H T 1"]  # gamma^(T - 1 - j): token j, at the chunk's end
    whole: Float[Tensor, "H 1 1"]  # gamma^T


class HeadDecay(nn.Module):
    """Give each head a fixed decay rate, and a gate on its output (Based, arXiv 2402.18668, App. C):
    gamma_h = 1 - 2^(c - h), c = -3, and the gate g = x W + b, no activation.

    The weight of token j for token i is g_h(x_i) gamma_h^(i - j) phi(q_i) . phi(k_j); the denominator keeps
    the undecayed sum.  The bias starts at one, so that gates start around 1 (ours).
    """

    gamma: Float[Tensor, "H"]

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.register_buffer("gamma", 1 - 2.0 ** (FASTEST - torch.arange(num_heads)), persistent=False)
        self.gate_proj = nn.Linear(d_model, num_heads)
        nn.init.ones_(self.gate_proj.bias)

    def forward(self, length: int) -> Fade:
        """Return the powers of the rates over a chunk of `length` tokens."""
        t = torch.arange(length, device=self.gamma.device)
        rate = self.gamma[:, None, None]
        between = (rate ** (t[:, None] - t).clamp(min=0)).tril()
        return Fade(between, rate ** (t[:, None] + 1), rate ** (length - 1 - t[:, None]), rate**length)

    def gate(self, x: Seq) -> Float[Tensor, "B H T 1"]:
        """Return the factor on each head's output at each token."""
        return self.gate_proj(x).mT[..., None]


MATRIX_UP_TO = 512  # tokens; shorter sequences are quicker through the matrix of weights than in chunks
ON_A_CPU = 128  # the same on a CPU, whose caches a larger matrix leaves, where no kernel makes it in parts
CHUNK = 128  # tokens, where heads decay


class State(NamedTuple):
    kv: Float[Tensor, "B H F V"]  # sum of phi(k) v^T
    z: Float[Tensor, "B H F"] | None  # sum of phi(k), where there is a denominator
    offset: int  # tokens so far, for maps that use positions


class LinearAttention(Mixer[State]):
    """Attend with features of q and k in place of exp (Katharopoulos et al. 2020, arXiv 2006.16236):
    y_t = phi(q_t) S_t / (phi(q_t) z_t + eps), S and z the sums over the past of phi(k) v^T and phi(k).
    With the map Taylor2 it is the linear layer of Based (arXiv 2402.18668, Eq. 3).

    feature_dim: C.  feature_map: builds the map from C, e.g. the class `feature_maps.Taylor2`.
    denominator: sum (z above) or none, for maps whose weights have both signs; then use `output_norm`.
    output_norm: RMSNorm of each head's output.
    tie_qk: where the map has parameters, queries and keys share them; else each has its own.
    decay: none, or per_head (Based, App. C): S fades, z does not, and a gate scales each head's output.
    The sums are kept in float32 at least.
    """

    def __init__(
        self,
        *,
        d_model: int,
        num_heads: int,
        feature_dim: int,
        feature_map: Callable[[int], FeatureMap],
        denominator: str,
        output_norm: bool,
        eps: float,
        tie_qk: bool = True,
        decay: str = "none",
    ) -> None:
        super().__init__()
        multiple("d_model", d_model, "num_heads", num_heads)
        at_least("feature_dim", feature_dim, 1)
        positive("eps", eps)
        one_of("denominator", denominator, ("sum", "none"))
        one_of("decay", decay, ("none", "per_head"))
        self.num_heads, self.head_dim, self.feature_dim = num_heads, d_model // num_heads, feature_dim
        self.denominator, self.eps = denominator, eps if denominator == "sum" else None
        self.map = feature_map(feature_dim)
        untied = not tie_qk and any(True for _ in self.map.parameters())
        self.key_map = feature_map(feature_dim) if untied else None
        self.proj = nn.Linear(d_model, num_heads * (2 * feature_dim + self.head_dim), bias=False)
        self.norm = nn.RMSNorm(self.head_dim, eps=eps) if output_norm else nn.Identity()
        self.decay = HeadDecay(d_model, num_heads) if decay == "per_head" else None
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Seq) -> Seq:
        """Use the matrix of all weights for a short sequence, where that is quicker, else the sums."""
        in_parts = self.map.halves and self.decay is None  # Taylor features have a kernel
        if x.shape[1] > (ON_A_CPU if x.device.type == "cpu" and not in_parts else MATRIX_UP_TO):
            return self.extend(x)[0]
        q, k, v = self._heads(x) if self.map.halves else map(wide, self._heads(x))
        with torch.autocast(x.device.type, enabled=False):
            fade = None if self.decay is None else self.decay(x.shape[1]).between
            y = self.map.attend(*self._learned(q, k), v, self.eps, fade)
        return self._output(wide(y), x)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Let the map carry the sums through the new tokens; keep them, and the count of tokens."""
        kv, z, offset = (None, None, 0) if state is None else state
        scan = self.map.scan if self.decay is None else self._fading_scan
        q, k, v = self._heads(x) if self.map.halves else map(wide, self._heads(x))
        with torch.autocast(x.device.type, enabled=False):
            y, kv, z = scan(*self._learned(q, k), v, self.eps, kv, z, offset)
        return self._output(wide(y), x), State(kv, z, offset + x.shape[1])

    def _fading_scan(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        eps: float | None,
        kv: Tensor | None,
        z: Tensor | None,
        offset: int,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return outputs and sums as FeatureMap.scan does, in chunks, with a numerator that fades."""
        q, k, v = map(wide, (q, k, v))
        if kv is None:
            kv, z = sums_before(self.map(k[:, :, :1], offset), v, eps, None, None)
        ys = []
        for part in zip(q.split(CHUNK, 2), k.split(CHUNK, 2), v.split(CHUNK, 2), strict=True):
            y, kv, z = self._fading_chunk(*part, kv, z, offset)
            offset += y.shape[2]
            ys.append(y)
        return torch.cat(ys, dim=2), kv, z

    def _fading_chunk(
        self, q: Tensor, k: Tensor, v: Tensor, kv: Tensor, z: Tensor | None, offset: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Let tokens of a chunk see each other through weights, and earlier tokens through the sums."""
        assert self.decay is not None
        fade, weights = self.decay(q.shape[2]), self.map.weights(q, k, offset)
        phi_q, phi_k, total = self.map(q, offset), self.map(k, offset), 1.0
        if z is not None and self.eps is not None:
            total = weights.sum(-1, keepdim=True) + phi_q @ z[..., None] + self.eps
            z = z + phi_k.sum(-2)
        y = (weights * fade.between) @ v + (phi_q * fade.since) @ kv
        return y / total, kv * fade.whole + (phi_k * fade.until).mT @ v, z

    def _learned(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self.map.learned(q), (self.key_map or self.map).learned(k)

    def _heads(
        self, x: Seq
    ) -> tuple[Float[Tensor, "B H T C"], Float[Tensor, "B H T C"], Float[Tensor, "B H T V"]]:
        heads = self.proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        q, k, v = heads.split([self.feature_dim, self.feature_dim, self.head_dim], dim=-1)
        return q, k, v

    def _output(self, y: Float[Tensor, "B H T V"], x: Seq) -> Seq:
        y = self.norm(y)
        if self.decay is not None:
            y = y * self.decay.gate(x)
        return self.out_proj(y.transpose(1, 2).flatten(2).to(x.dtype))

    def check_length(self, seq_len: int) -> None:
        """Raise ValueError if the feature map has too few positions."""
        self.map.check_length(seq_len)

    def state_size(self, seq_len: int) -> StateSize:
        """Count F features times the value channels per head, and one more where there is a denominator."""
        held = self.num_heads * self.map.expanded_dim * (self.head_dim + (self.eps is not None))
        return StateSize.read_whole(held, paper=held)
