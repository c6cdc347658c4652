"""Compute linear attention with exponential features from logarithms of its sums, which cannot overflow.

A weight is w_ts = sum over r of exp(a_tr + b_sr).  In place of the sums of exp(b_r) v and of exp(b_r), the
state holds their quotient, which is the mean of the values under feature r, and the logarithm of the second
sum.  These are of the size of the values and of the exponents, however large a and b are.

B batch, H heads, T time, F features, V channels of a value.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.gated_linear_attention import gated_linear_attention


class Sums(NamedTuple):
    mean: Float[Tensor, "B H F V"]
    log_z: Float[Tensor, "B H F"]


def attend(
    a: Float[Tensor, "B H T F"],
    b: Float[Tensor, "B H T F"],
    v: Float[Tensor, "B H T V"],
    eps: float,
    before: Sums | None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T"], Sums]:
    """Return the mean of the values up to each token, the log of the sum of its weights, and the last sums.

    eps: added to the sum of a query's weights, where the largest feature's part is 1.
    """
    if before is None:
        log_z = b.logcumsumexp(-2)
        last = torch.cat([log_z[..., :1, :], log_z[..., :-1, :]], dim=-2)
    else:
        log_z = torch.cat([before.log_z[..., None, :], b], dim=-2).logcumsumexp(-2)
        last, log_z = log_z[..., :-1, :], log_z[..., 1:, :]
    share, log_weight = shares(a, log_z, eps)
    fade, written = (last - log_z).clamp(max=0), (b - log_z).exp()
    y, mean = gated_linear_attention(share, written, v, fade, None if before is None else before.mean)
    return y, log_weight, Sums(mean, log_z[..., -1, :])


def shares(
    a: Float[Tensor, "B H T F"], log_z: Float[Tensor, "B H #T F"], eps: float
) -> tuple[Float[Tensor, "B H T F"], Float[Tensor, "B H T"]]:
    """Return each feature's share of a query's total weight, and the log of the total weight."""
    logits = a + log_z
    highest = logits.amax(-1, keepdim=True).detach()
    parts = (logits - highest).exp()
    total = parts.sum(-1, keepdim=True) + eps
    return parts / total, (highest + total.log())[..., 0]
