"""Forgetting attention, one query after another.

B batch, H query heads, G key/value heads (H a multiple of G), C channels per head, T queries that are the
last of S keys.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def forgetting_attention_reference(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B G S C"],
    v: Float[Tensor, "B G S C"],
    log_gate: Float[Tensor, "B H T"],
    decay: Float[Tensor, "B H S-T"],
) -> tuple[Float[Tensor, "B H T C"], Float[Tensor, "B H S"]]:
    """softmax over s <= t of q_t k_s / sqrt C + the sum of log_gate over the tokens after s, up to t.

    decay: that sum, up to the token before the first query, for the keys of earlier tokens.  The second
    result is the same for all keys after the last query.  Lin et al. 2025 (arXiv 2503.02130), Eq. 6.
    """
    shared = q.shape[1] // k.shape[1]
    k, v, ys = k.repeat_interleave(shared, dim=1), v.repeat_interleave(shared, dim=1), []
    for q_t, gate in zip(q.unbind(2), log_gate.unbind(2), strict=True):
        decay = torch.cat([decay + gate[..., None], torch.zeros_like(gate[..., None])], dim=-1)
        count = decay.shape[-1]
        logits = (q_t[:, :, None] * k[:, :, :count]).sum(-1) / q.shape[-1] ** 0.5 + decay
        ys.append((logits.softmax(-1)[..., None] * v[:, :, :count]).sum(2))
    return torch.stack(ys, dim=2), decay
