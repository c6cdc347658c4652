"""Define PaTH attention, one token after another.

B batch, H query heads, G key/value heads (H a multiple of G), C channels per head, T new tokens, S all keys:
those kept from earlier tokens, then the new ones.
"""

import torch
from torch import Tensor


def path_attention_reference(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, beta: Tensor
) -> tuple[Tensor, Tensor]:
    """Update all earlier keys at each token, then attend to them."""
    shared, past = q.shape[1] // k.shape[1], k.shape[2] - q.shape[2]
    keys, ys = k[:, :, :past], []
    for t, (q_t, w_t, beta_t) in enumerate(zip(q.unbind(2), w.unbind(2), beta.unbind(2), strict=True)):
        along = (keys * w_t[:, :, None]).sum(-1, keepdim=True)
        keys = keys - beta_t[..., None, None] * along * w_t[:, :, None]
        keys = torch.cat([keys, k[:, :, past + t : past + t + 1]], dim=2)
        expanded, values = (part.repeat_interleave(shared, dim=1) for part in (keys, v[:, :, : past + t + 1]))
        logits = (q_t[:, :, None] * expanded).sum(-1) / q.shape[-1] ** 0.5
        ys.append((logits.softmax(-1)[..., None] * values).sum(2))
    return torch.stack(ys, dim=2), keys
