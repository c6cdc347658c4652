"""Llama-XL attends to a token's own segment and to the cached keys of the segment before.

It is the variant of Transformer-XL (arXiv 1901.02860) with which the Forgetting Curve paper (arXiv
2410.04727, Appendix D.2) measures memory.

B batch, T time, S tokens kept, D model width, H query heads, G key/value heads, C channels per head.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from zoo.common.checks import at_least, positive
from zoo.kernels.attention import attention
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.positions import check_position, rotate
from zoo.mixers.projections import QueryKeyValue
from zoo.mixers.state import StateSize


class State(NamedTuple):
    """Hold the keys and values of the last full segment and of the open one so far."""

    k: Float[Tensor, "B G S C"]  # of unit length, not turned to a position
    v: Float[Tensor, "B G S C"]
    offset: int


class LlamaXL(Mixer[State]):
    """Attend causally inside the own segment and to all of the segment before, with keys of unit length.

    The keys of both segments are turned (RoPE) to 0, 1, ..., so that no position exceeds 2 segment_len.  From
    the second segment on, a token sees segment_len + 1 to 2 segment_len tokens.  `scale` times the query's
    product with a key is the logit.

    In training no gradient reaches the previous segment, as in the source, where that segment comes from an
    earlier step.  In evaluation gradients reach it, which changes no output.
    """

    def __init__(
        self,
        *,
        d_model: int,
        num_heads: int,
        segment_len: int,
        num_kv_heads: int | None,
        scale: float,
        rope_base: float,
        rope_fraction: float,
        bias: bool,
    ) -> None:
        super().__init__()
        at_least("segment_len", segment_len, 1)
        positive("scale", scale)
        self.segment_len, self.scale = segment_len, scale
        self.rope_base, self.rope_fraction = rope_base, rope_fraction
        self.qkv = QueryKeyValue(d_model, num_heads, num_kv_heads, bias=bias)
        check_position("rope", self.qkv.head_dim, rope_fraction, rope_base)
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Finish the open segment, fold the rest into a batch; keep the last full segment and the rest."""
        offset, size = 0 if state is None else state.offset, self.segment_len
        q, k, v = self.qkv(x)
        q, k = q * (self.scale * self.qkv.head_dim**0.5), F.normalize(k, dim=-1)
        if state is not None:
            k, v = torch.cat([state.k, k], dim=2), torch.cat([state.v, v], dim=2)
        past, end = k.shape[2] - q.shape[2], size if offset < size else 2 * size  # of the open segment
        y = self._attend(q[:, :, : end - past], k[:, :, :end], v[:, :, :end])
        if k.shape[2] > end:
            later = self._segments(q[:, :, end - past :], k[:, :, end - size :], v[:, :, end - size :])
            y = torch.cat([y, later], dim=2)
        total = offset + x.shape[1]
        cut = k.shape[2] - (total if total < size else size + total % size)
        y = self.out_proj(y.transpose(1, 2).flatten(2))
        return y, State(k[:, :, cut:], v[:, :, cut:], total)

    def _segments(
        self, q: Float[Tensor, "B H T C"], k: Float[Tensor, "B G S C"], v: Float[Tensor, "B G S C"]
    ) -> Float[Tensor, "B H T C"]:
        """Attend in whole segments and a last one that may be short, as sequences of a batch.

        The keys begin with the segment before them.
        """
        (batch, _, length, _), fill = q.shape, -q.shape[2] % self.segment_len
        q, k, v = (F.pad(part, (0, 0, 0, fill)).unflatten(2, (-1, self.segment_len)) for part in (q, k, v))
        pairs = (torch.cat([self._cached(part[:, :, :-1]), part[:, :, 1:]], dim=3) for part in (k, v))
        folded = (part.transpose(1, 2).flatten(0, 1) for part in (q, *pairs))
        y = self._attend(*folded).unflatten(0, (batch, -1))
        return y.transpose(1, 2).flatten(2, 3)[:, :, :length]

    def _cached(self, part: Tensor) -> Tensor:
        return part.detach() if self.training else part

    def _attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q = rotate(q, k.shape[2] - q.shape[2], self.rope_base, self.rope_fraction)
        return attention(q, rotate(k, 0, self.rope_base, self.rope_fraction), v)

    def state_size(self, seq_len: int) -> StateSize:
        """Count the keys and values of the last full segment and of the open one."""
        size = self.segment_len
        held = 2 * self.qkv.kv_dim * (seq_len if seq_len < size else size + seq_len % size)
        return StateSize.read_whole(held)

    def read_until(self, seq_len: int) -> Int[Tensor, "T"]:
        """Return the end of the segment after each token's own."""
        segment = torch.arange(seq_len) // self.segment_len
        return (segment + 2) * self.segment_len - 1
