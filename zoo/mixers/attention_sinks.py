"""Attention to a window may also see the first tokens, or give a part of its weight to no token.

B batch, T time, S tokens kept, D model width, H query heads, G key/value heads, C channels per head.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.kernels.masked_attention import masked_attention
from zoo.mixers.bigbird import BigBird
from zoo.mixers.positions import check_position, rotate
from zoo.mixers.state import StateSize


class AttentionSinks(BigBird):
    """Attend to the newest tokens and to sinks: the sequence's first tokens, a learned logit, or both.

    The first tokens are as in StreamingLLM (Xiao et al. 2023, arXiv 2309.17453), the learned logit as in
    gpt-oss (OpenAI 2025, arXiv 2508.10925).
    num_sinks: first tokens that every token sees.  window: the newest tokens in view, with the token itself.
        (The authors' code shows window - 1 or window past tokens: one path evicts before a call, one after.)
    position: none | rope.  As published, rope counts places in the cache: keys are kept as projected, the
        newest of the cache's n tokens is at n - 1, and a sink at its own place, however far back it is.
    sink_logit: each head has a learned logit z that joins every softmax without a value; a weight is then
        exp(l) / (exp(z) + sum exp(l)).  z starts at 0 (ours: the published initial value is not known).
    Other settings as in `zoo.mixers.attention`.
    """

    def __init__(
        self,
        *,
        d_model: int,
        num_heads: int,
        window: int,
        num_sinks: int,
        sink_logit: bool,
        num_kv_heads: int | None,
        position: str,
        rope_base: float,
        rope_fraction: float,
        bias: bool,
    ) -> None:
        super().__init__(
            d_model=d_model, num_heads=num_heads, window=window, num_global=num_sinks, num_random=0,
            max_len=num_sinks, seed=0, num_kv_heads=num_kv_heads, position="none", rope_base=rope_base,
            rope_fraction=rope_fraction, bias=bias,
        )  # fmt: skip
        check_position(position, self.qkv.head_dim, rope_fraction, rope_base)
        self.turn = (rope_base, rope_fraction) if position == "rope" else None
        self.sink = nn.Parameter(torch.zeros(num_heads)) if sink_logit else None

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, total: int) -> Float[Tensor, "B H T C"]:
        scale = q.shape[-1] ** -0.5
        if self.turn is not None:
            q, k = self._placed(q, k, total, *self.turn)
        if self.sink is not None:  # the sink is one more key, in one more channel
            z = (self.sink / scale)[:, None, None].expand(*q.shape[:3], 1)
            key = F.one_hot(torch.tensor(q.shape[-1], device=q.device)).to(k).expand(*k.shape[:2], 1, -1)
            q, k = torch.cat([q, z.to(q)], dim=-1), torch.cat([key, F.pad(k, (0, 1))], dim=2)
            v, mask = F.pad(v, (0, 0, 1, 0)), F.pad(mask, (1, 0), value=True)
        return masked_attention(q * (scale * q.shape[-1] ** 0.5), k, v, mask)

    def _placed(
        self, q: Tensor, k: Tensor, total: int, base: float, fraction: float
    ) -> tuple[Tensor, Tensor]:
        """Turn by cache places: half of the channels for the window, at true positions, half for sinks."""
        first, last = total - q.shape[2], self.num_global + self.window - 1  # the place of all later tokens
        near, far = q.split([min(max(last - first, 0), q.shape[2]), max(total - max(last, first), 0)], dim=2)
        far = rotate(far[..., None, :], last, base, fraction)[..., 0, :]
        to_sinks = torch.cat([rotate(near, first, base, fraction), far], dim=2)
        count = min(self.num_global, total)
        sinks, window = k.split([count, k.shape[2] - count], dim=2)
        window = rotate(window, total - window.shape[2], base, fraction)
        k = torch.cat(
            [F.pad(window, (0, k.shape[-1])), F.pad(rotate(sinks, 0, base, fraction), (k.shape[-1], 0))], 2
        )
        k = k.roll(count, dims=2)
        return torch.cat([rotate(q, first, base, fraction), to_sinks], dim=-1), k

    def state_size(self, seq_len: int) -> StateSize:
        """Count keys and values of the sinks and of window - 1 tokens behind them."""
        return StateSize.read_whole(super().state_size(seq_len).resident)
