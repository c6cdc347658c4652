"""Define RWKV-4's average token after token, over a running maximum (arXiv 2305.13048, Appendix D)."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

NOTHING = -1e30  # stands for the exponent of an empty past: any real one is larger, no difference is NaN


class Averages(NamedTuple):
    """The past's weighted sums; every weight is divided by exp(pp)."""

    aa: Float[Tensor, "B D"]  # sum of weight * v
    bb: Float[Tensor, "B D"]  # sum of weights
    pp: Float[Tensor, "B D"]  # largest exponent of a weight


def no_past(k: Float[Tensor, "B T D"]) -> Averages:
    """Return the sums of an empty past."""
    zeros = torch.zeros_like(k[:, 0])
    return Averages(zeros, zeros, torch.full_like(zeros, NOTHING))


def wkv4_reference(
    k: Tensor, v: Tensor, log_decay: Tensor, bonus: Tensor, state: Averages | None = None
) -> tuple[Tensor, Averages]:
    """Average token after token, with all weights over that of a running maximum."""
    aa, bb, pp = no_past(k) if state is None else state
    ys = []
    for k_t, v_t in zip(k.unbind(1), v.unbind(1), strict=True):
        top = torch.maximum(pp, bonus + k_t)
        past, now = torch.exp(pp - top), torch.exp(bonus + k_t - top)
        ys.append((past * aa + now * v_t) / (past * bb + now))
        top = torch.maximum(pp + log_decay, k_t)
        past, now = torch.exp(pp + log_decay - top), torch.exp(k_t - top)
        aa, bb, pp = past * aa + now * v_t, past * bb + now, top
    return torch.stack(ys, dim=1), Averages(aa, bb, pp)
