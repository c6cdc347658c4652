"""Softmax attention over a window of which a part was before: joined, attended to and cut, in torch.

B batch, H query heads, G key/value heads, C channels per head, T new tokens, S kept ones, N kept afterwards.
"""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.attention import attention_reference, attention_sdpa

Attended = tuple[Float[Tensor, "B H T C"], Float[Tensor, "B G N C"], Float[Tensor, "B G N C"]]


def attend_and_keep(
    attend: Callable[[Tensor, Tensor, Tensor, int, Tensor | None], Tensor],
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B G T C"],
    v: Float[Tensor, "B G T C"],
    past_k: Float[Tensor, "B G S C"] | None,
    past_v: Float[Tensor, "B G S C"] | None,
    window: int,
    slopes: Float[Tensor, "H"] | None = None,
) -> Attended:
    """Join, attend and cut; what is kept is a view.  attend: `zoo.kernels.attention`, or a form of it."""
    if past_k is not None and past_v is not None:
        k, v = torch.cat([past_k, k], dim=2), torch.cat([past_v, v], dim=2)
    cut = max(0, k.shape[2] - (window - 1))
    return attend(q, k, v, window, slopes), k[:, :, cut:], v[:, :, cut:]


window_decode_reference = partial(attend_and_keep, attention_reference)
window_decode_sdpa = partial(attend_and_keep, attention_sdpa)
