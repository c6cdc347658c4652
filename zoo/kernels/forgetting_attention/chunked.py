"""Forgetting attention through the fused kernel: the decay of a pair is a product of two more channels.

With c the running sum of log gates, the bias of (t, s) is c_t - c_s = (c_t, 1) . (1, -c_s).  Each chunk of
queries counts from its own start, and the sums are taken in float64: biases are then exact, however much
has been forgotten in the chunks before.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.attention import attention
from zoo.kernels.heads import per_query_head

CHUNK = 128  # queries


def forgetting_attention_chunked(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B G S C"],
    v: Float[Tensor, "B G S C"],
    log_gate: Float[Tensor, "B H T"],
    decay: Float[Tensor, "B H S-T"],
) -> tuple[Float[Tensor, "B H T C"], Float[Tensor, "B H S"]]:
    """What `forgetting_attention_reference` says, faster."""
    (heads, length, size), past = q.shape[1:], decay.shape[2]
    k, v = per_query_head(k, heads), per_query_head(v, heads)
    sums = log_gate.double().cumsum(-1)
    of_key = torch.cat([decay.double(), -sums], dim=-1)
    q, v, ys = q * size**-0.5, F.pad(v, (0, 2)), []
    for start in range(0, length, CHUNK):
        stop = min(start + CHUNK, length)
        before = sums[:, :, start : start + 1]
        now = (sums[:, :, start:stop] - before).to(q.dtype)
        then = (of_key[:, :, : past + stop] + before).to(q.dtype)
        queries = torch.cat([q[:, :, start:stop], now[..., None], torch.ones_like(now)[..., None]], dim=-1)
        keys = torch.cat([k[:, :, : past + stop], torch.ones_like(then)[..., None], then[..., None]], dim=-1)
        ys.append(attention(queries * (size + 2) ** 0.5, keys, v[:, :, : past + stop])[..., :size])
    return torch.cat(ys, dim=2), (of_key + sums[:, :, -1:]).to(decay.dtype)
