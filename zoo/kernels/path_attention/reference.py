"""PaTH attention, one token after another.

B batch, H query heads, G key/value heads (H a multiple of G), C channels per head, T new tokens, S all keys:
those kept from earlier tokens, then the new ones.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def path_attention_reference(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B G S C"],
    v: Float[Tensor, "B G S C"],
    w: Float[Tensor, "B G T C"],
    beta: Float[Tensor, "B G T"],
) -> tuple[Float[Tensor, "B H T C"], Float[Tensor, "B G S C"]]:
    """softmax over s <= t of q_t k_s / sqrt C, where every token t has first replaced all earlier keys k by
    k - beta_t w_t (w_t k).  Returns the outputs and the keys as the last token leaves them.

    Yang et al. 2025 (arXiv 2505.16381), Eq. 2 and 3, with the products of matrices carried by the keys.
    """
    shared, past = q.shape[1] // k.shape[1], k.shape[2] - q.shape[2]
    keys, ys = k[:, :, :past], []
    for t, (q_t, w_t, beta_t) in enumerate(zip(q.unbind(2), w.unbind(2), beta.unbind(2), strict=True)):
        along = (keys * w_t[:, :, None]).sum(-1, keepdim=True)
        keys = keys - beta_t[..., None, None] * along * w_t[:, :, None]
        keys = torch.cat([keys, k[:, :, past + t : past + t + 1]], dim=2)
        seen, values = (part.repeat_interleave(shared, dim=1) for part in (keys, v[:, :, : past + t + 1]))
        logits = (q_t[:, :, None] * seen).sum(-1) / q.shape[-1] ** 0.5
        ys.append((logits.softmax(-1)[..., None] * values).sum(2))
    return torch.stack(ys, dim=2), keys
