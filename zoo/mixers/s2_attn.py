"""Shifted sparse attention (S^2-Attn) stays inside groups, which half of the heads shift by half a group.

Chen et al. 2023, "LongLoRA" (arXiv 2309.12307), Section 3.2.

B batch, T time, S and R keys of the open groups, D model width, H query heads, G key/value heads, C channels
per head.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from zoo.common.checks import multiple
from zoo.kernels.attention import attention
from zoo.mixers.base import Seq
from zoo.mixers.projections import AttentionHeads
from zoo.mixers.state import StateSize


class State(NamedTuple):
    k: Float[Tensor, "B G/2 S C"]
    v: Float[Tensor, "B G/2 S C"]
    k_shifted: Float[Tensor, "B G/2 R C"]
    v_shifted: Float[Tensor, "B G/2 R C"]
    offset: int


class S2Attn(AttentionHeads[State]):
    """Attend causally inside groups of tokens, shifted by half a group in half of the heads:
    [0, g), [g, 2g), ... for the first half and [0, g/2), [g/2, 3g/2), ... for the second, g = group_size.

    Where we differ from the authors' code: the shift does not wrap around (there the first half group attends
    to the end of the sequence), the group size is fixed instead of a quarter of the training length, and the
    last group may be short, so that decoding works.
    num_heads and num_kv_heads are even.  Other settings as in `zoo.mixers.attention`.
    """

    alibi = True

    def __init__(self, *, num_heads: int, group_size: int, num_kv_heads: int | None, **heads: Any) -> None:
        super().__init__(num_heads=num_heads, num_kv_heads=num_kv_heads, **heads)
        multiple("group_size", group_size, "2, for the shift by half a group", 2)
        multiple("num_kv_heads", num_kv_heads or num_heads, "2, one half of the heads is shifted", 2)
        self.group_size = group_size
        self.out_proj = self.last_projection()

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Attend inside the groups of both halves of the heads; keep the open groups."""
        offset, size = 0 if state is None else state.offset, self.group_size
        held = (None, None) if state is None else (state[0:2], state[2:4])
        first = (
            size if offset >= size // 2 else size // 2
        )  # the size of the shifted group that the held keys are in
        q, k, v = (part.chunk(2, dim=1) for part in self.qkv(x, offset=offset))
        slopes = (None, None) if self.qkv.slopes is None else self.qkv.slopes.chunk(2)
        y, *open_group = in_groups(q[0], k[0], v[0], held[0], size, size, slopes[0])
        shifted, *open_shifted = in_groups(q[1], k[1], v[1], held[1], first, size, slopes[1])
        y = torch.cat([y, shifted], dim=1).transpose(1, 2).flatten(2)
        return self.out_proj(y), State._make([*open_group, *open_shifted, offset + x.shape[1]])

    def state_size(self, seq_len: int) -> StateSize:
        """Count keys and values of the open group of each half of the heads."""
        shifted = min(seq_len, (seq_len + self.group_size // 2) % self.group_size)
        return StateSize.read_whole(self.qkv.kv_dim * (seq_len % self.group_size + shifted))

    def read_until(self, seq_len: int) -> Int[Tensor, "T"]:
        """Return the end of the later of the two groups that a token is in."""
        t, size, half = torch.arange(seq_len), self.group_size, self.group_size // 2
        return torch.maximum((t // size + 1) * size, ((t + half) // size + 1) * size - half) - 1


def in_groups(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B G T C"],
    v: Float[Tensor, "B G T C"],
    held: tuple[Tensor, ...] | None,
    first: int,
    size: int,
    slopes: Tensor | None,
) -> tuple[Float[Tensor, "B H T C"], Float[Tensor, "B G S C"], Float[Tensor, "B G S C"]]:
    """Attend causally in groups of the held and new keys: a first group of `first`, then groups of `size`.

    Also returns the keys and values of the last group, or none if it is full.
    """
    if held is not None:
        k, v = torch.cat([held[0], k], dim=2), torch.cat([held[1], v], dim=2)
    total, past = k.shape[2], k.shape[2] - q.shape[2]
    y = attention(q[:, :, : first - past], k[:, :, :first], v[:, :, :first], slopes=slopes)
    if total < first:
        return y, k, v
    if total > first:
        later = (q[:, :, first - past :], k[:, :, first:], v[:, :, first:])
        y = torch.cat([y, _folded(later, size, slopes)], dim=2)
    cut = total - (total - first) % size
    return y, k[:, :, cut:], v[:, :, cut:]


def _folded(parts: tuple[Tensor, Tensor, Tensor], size: int, slopes: Tensor | None) -> Tensor:
    """Attend in groups as sequences of a batch; a short last one is filled up with keys that nobody sees."""
    batch, _, length, _ = parts[0].shape
    groups = (F.pad(x, (0, 0, 0, -length % size)).unflatten(2, (-1, size)) for x in parts)
    q, k, v = (x.transpose(1, 2).flatten(0, 1) for x in groups)
    y = attention(q, k, v, slopes=slopes).unflatten(0, (batch, -1))
    return y.transpose(1, 2).flatten(2, 3)[:, :, :length]
