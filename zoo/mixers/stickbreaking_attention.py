"""Stick-breaking attention gives each key a share of the weight that newer keys have left, not a softmax.

Tan et al. 2025 (arXiv 2410.17980), Section 2.

B batch, T time, S tokens so far, D model width, H query heads, G key/value heads, C channels per head.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.kernels.common.heads import per_query_head
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.cache import State, append
from zoo.mixers.projections import QueryKeyValue
from zoo.mixers.state import StateSize

CHUNK = 128  # queries whose weights are computed at a time


class StickbreakingAttention(Mixer[State]):
    """Weigh keys from the newest to the oldest, each by a share of what the newer ones have left:
    token s < t has the weight b_ts times the product over j = s+1 .. t-1 of (1 - b_tj), with
    b_ts = sigmoid(q_t k_s / sqrt C).  No softmax and no positions: the order is in the weights.

    What is left of the stick when all keys have had their share goes to the token's own value, so that the
    weights sum to one.  (The authors leave it out or give it a learned value.)
    """

    def __init__(self, *, d_model: int, num_heads: int, num_kv_heads: int | None, bias: bool) -> None:
        super().__init__()
        self.qkv = QueryKeyValue(d_model, num_heads, num_kv_heads, bias=bias)
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Break the sticks of CHUNK queries at a time over all keys; keep every key and value."""
        q, k, v = self.qkv(x)
        if state is not None:
            k, v = append(state.k, k, dim=2), append(state.v, v, dim=2)
        wide = torch.promote_types(x.dtype, torch.float32)
        keys, values = (per_query_head(part.to(wide), q.shape[1]) for part in (k, v))
        stop, ys = k.shape[2] - q.shape[2], []
        with torch.autocast(x.device.type, enabled=False):
            for queries in q.to(wide).split(CHUNK, dim=2):
                stop += queries.shape[2]
                ys.append(break_sticks(queries, keys[:, :, :stop], values[:, :, :stop]))
        y = torch.cat(ys, dim=2).transpose(1, 2).flatten(2).to(x.dtype)
        return self.out_proj(y), State(k, v)

    def state_size(self, seq_len: int) -> StateSize:
        """Count keys and values of all tokens."""
        return StateSize.read_whole(2 * self.qkv.kv_dim * seq_len)


def break_sticks(
    q: Float[Tensor, "B H T C"], k: Float[Tensor, "B H S C"], v: Float[Tensor, "B H S C"]
) -> Float[Tensor, "B H T C"]:
    """Return the outputs of the queries, which are the last T of the S tokens."""
    logits = q @ k.mT / q.shape[-1] ** 0.5
    later = torch.ones(logits.shape[-2:], dtype=torch.bool, device=q.device).triu(k.shape[2] - q.shape[2])
    log_rest = F.logsigmoid(-logits).masked_fill(later, 0.0)
    left = log_rest.flip(-1).cumsum(-1).flip(-1)  # log of the stick after key s and all newer ones
    before = F.pad(left[..., 1:], (0, 1))
    weights = (F.logsigmoid(logits) + before).masked_fill(later, float("-inf")).exp()
    return weights @ v + left[..., :1].exp() * v[:, :, v.shape[2] - q.shape[2] :]
