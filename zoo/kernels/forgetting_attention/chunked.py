"""Compute forgetting attention in chunks of queries, with the decay of each pair added to its logit.

With c the running sum of log gates, that decay is c_t - c_s.  The sums are taken and subtracted in float64:
the difference of two long sums in float32 would be off by 0.03 after 128 gates of e^-3000.
"""

import torch
from torch import Tensor

from zoo.kernels.common.heads import per_query_head
from zoo.kernels.masked_attention import masked_attention

CHUNK = 128  # queries


def forgetting_attention_chunked(
    q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, decay: Tensor
) -> tuple[Tensor, Tensor]:
    """Attend in chunks of queries, with the decay of each pair as a bias."""
    (heads, length), past = q.shape[1:3], decay.shape[2]
    k, v = per_query_head(k, heads), per_query_head(v, heads)
    sums, ys = log_gate.double().cumsum(-1), []
    of_key = torch.cat([decay.double(), -sums], dim=-1)
    later = torch.ones(length, past + length, dtype=torch.bool, device=q.device).triu(past + 1)
    for start in range(0, length, CHUNK):
        stop = min(start + CHUNK, length)
        visible = slice(past + stop)
        bias = (sums[:, :, start:stop, None] + of_key[:, :, None, visible]).to(q.dtype)
        bias = bias.masked_fill(later[start:stop, visible], -torch.inf)
        ys.append(masked_attention(q[:, :, start:stop], k[:, :, visible], v[:, :, visible], bias))
    return torch.cat(ys, dim=2), (of_key + sums[:, :, -1:]).to(decay.dtype)
