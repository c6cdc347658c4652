"""Define forgetting attention, one query after another.

B batch, H query heads, G key/value heads (H a multiple of G), C channels per head, T queries that are the
last of S keys.
"""

import torch
from torch import Tensor


def forgetting_attention_reference(
    q: Tensor, k: Tensor, v: Tensor, log_gate: Tensor, decay: Tensor
) -> tuple[Tensor, Tensor]:
    """Attend query after query, and add up the decay of every key."""
    shared = q.shape[1] // k.shape[1]
    k, v, ys = k.repeat_interleave(shared, dim=1), v.repeat_interleave(shared, dim=1), []
    for q_t, gate in zip(q.unbind(2), log_gate.unbind(2), strict=True):
        decay = torch.cat([decay + gate[..., None], torch.zeros_like(gate[..., None])], dim=-1)
        count = decay.shape[-1]
        logits = (q_t[:, :, None] * k[:, :, :count]).sum(-1) / q.shape[-1] ** 0.5 + decay
        ys.append((logits.softmax(-1)[..., None] * v[:, :, :count]).sum(2))
    return torch.stack(ys, dim=2), decay
