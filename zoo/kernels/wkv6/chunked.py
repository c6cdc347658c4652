"""Compute RWKV-5 and 6 by gated linear attention: a token reads the state before it, so keys, values and
decays come one token late.  The bonus is not in the state, and the last token is written after all have read.
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.gated_linear_attention import gated_linear_attention


def wkv6_chunked(
    r: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, bonus: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Run gated linear attention one token late, and add the bonus."""
    y, S = gated_linear_attention(r, _late(k), _late(v), _late(log_decay), state)
    y = y + (r * bonus[:, None] * k).sum(-1, keepdim=True) * v
    written = k[..., -1, :, None] * v[..., -1, None, :]
    return y, log_decay[..., -1, :, None].exp() * S + written


def _late(s: Float[Tensor, "B H T X"]) -> Float[Tensor, "B H T X"]:
    """Return `s` one token later; the new first token writes nothing and forgets nothing."""
    return F.pad(s[..., :-1, :], (0, 0, 1, 0))
