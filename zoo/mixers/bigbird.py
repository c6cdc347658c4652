"""BigBird's pattern bounds causal attention to a window, a prefix that all see, and a few random columns.

Zaheer et al. 2020 (arXiv 2007.14062), Section 2.

B batch, T time, S tokens kept, D model width, H query heads, G key/value heads, C channels per head.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zoo.common.checks import at_least
from zoo.kernels.common.heads import per_query_head
from zoo.kernels.masked_attention import masked_attention
from zoo.mixers.base import Seq
from zoo.mixers.projections import AttentionHeads
from zoo.mixers.sliding_window import State
from zoo.mixers.state import StateSize


class BigBird(AttentionHeads[State]):
    """Attend to the newest tokens, to the first ones, and to a few at random positions, drawn once:
    token t sees the tokens up to itself that are among the `window` newest (itself included), the first
    `num_global`, or the `num_random` columns.

    columns: positions drawn without repetition from [num_global, max_len), as a function of `seed` alone: the
        same in every head and in sequences of any length.  (The published code for the MQAR figures draws
        anew at every call, in evaluation too; then any token may be read later, and all must be kept.)
    A token is kept once, even if it is seen for several reasons.  The published 14 blocks are keys and values
    of 3 blocks of window, 2 of global and 2 of random tokens.  Other settings as in `zoo.mixers.attention`.
    """

    small_out = True

    def __init__(
        self, *, window: int, num_global: int, num_random: int, max_len: int, seed: int, **heads: Any
    ) -> None:
        super().__init__(**heads)
        at_least("window", window, 1)
        at_least("num_global", num_global, 0)
        at_least("num_random", num_random, 0)
        at_least("max_len", max_len, num_global + num_random)
        self.window, self.num_global, self.num_random = window, num_global, num_random
        generator = torch.Generator().manual_seed(seed)
        draw = torch.randperm(max_len - num_global, generator=generator, device="cpu")  # even on "meta"
        self._whole: dict[tuple[int, torch.device], tuple[Tensor, Tensor]] = {}
        self.columns = sorted(num_global + int(i) for i in draw[:num_random])
        self.out_proj = self.last_projection()

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Attend under the mask of the pattern; keep the keys and values that a later token may see."""
        offset = 0 if state is None else state.offset
        q, k, v = self.qkv(x, offset=offset)
        if state is not None:
            k, v = torch.cat([state.k, k], dim=2), torch.cat([state.v, v], dim=2)
        total = offset + x.shape[1]
        mask, index = self._places(offset, total, x.device)
        k_all, v_all = (per_query_head(part, self.qkv.num_heads) for part in (k, v))
        y = self.out_proj(self._attend(q, k_all, v_all, mask, total).transpose(1, 2).flatten(2))
        return y, State(k.index_select(2, index), v.index_select(2, index), total)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, total: int) -> Float[Tensor, "B H T C"]:
        """Return the heads' outputs for the last of `total` tokens."""
        return masked_attention(q, k, v, mask)

    def _places(self, offset: int, total: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return the mask of the tokens from `offset` on, and the indices of the keys that stay after them.

        Those of whole sequences are cached on their device for good: training needs the same at each step, a
        new copy would wait for the device, and a recorded step (CUDA graph) reads that memory again.
        """
        if (total, device) in self._whole and not offset:
            return self._whole[total, device]
        stands = [*self._stored(offset), *range(offset, total)]  # the position of each key
        s = torch.tensor(stands, dtype=torch.long)
        age = torch.arange(offset, total)[:, None] - s
        mask = (age >= 0) & ((age < self.window) | self._always(s))
        keep = set(self._stored(total))
        index = torch.tensor([i for i, s in enumerate(stands) if s in keep], dtype=torch.long)
        places = mask.to(device), index.to(device)
        if not offset:
            self._whole[total, device] = places
        return places

    def _stored(self, offset: int) -> list[int]:
        """List the positions that a later token may see."""
        newest = max(self.num_global, offset - self.window + 1)
        columns = (column for column in self.columns if column < offset - self.window + 1)
        return [*range(min(self.num_global, offset)), *columns, *range(newest, offset)]

    def _always(self, s: Int[Tensor, "S"]) -> Bool[Tensor, "S"]:
        return (s < self.num_global) | torch.isin(s, torch.tensor(self.columns, dtype=s.dtype))

    def state_size(self, seq_len: int) -> StateSize:
        """Count the keys and values of the window, the prefix and the columns so far, each token once."""
        held = 2 * self.qkv.kv_dim * len(self._stored(seq_len))
        paper = 2 * self.d_model * (self.window + self.num_global + self.num_random)
        return StateSize.read_whole(held, paper=paper)

    def read_until(self, seq_len: int) -> Int[Tensor, "T"]:
        """Return the end for the prefix and the columns, the window's reach for all other tokens."""
        t = torch.arange(seq_len)
        return torch.where(self._always(t), seq_len, t + self.window) - 1
