"""RWKV-6 and 7 make their settings depend on the token by a small network of two thin matrices.

B batch, T time, D model width, R rank.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least
from zoo.kernels.linear import linear
from zoo.mixers.base import Seq
from zoo.mixers.undecayed import undecayed


class LowRank(nn.Module):
    """Compute a setting for each token by two thin matrices: base + f(x down) up.

    base: its initial values [D], None for no base.  f: an elementwise function, None for none.
    down starts at zero, so that all tokens start with `base`; up starts as `fill` leaves it.
    All three carry `no_weight_decay = True`, which training reads.
    """

    def __init__(
        self,
        d_model: int,
        rank: int,
        base: Float[Tensor, "D"] | None,
        f: Callable[[Tensor], Tensor] | None = None,
        *,
        fill: Callable[[Tensor], object],
    ) -> None:
        super().__init__()
        at_least("rank", rank, 1)
        self.f = f
        self.down = nn.Parameter(torch.zeros(d_model, rank))
        self.up = nn.Parameter(torch.empty(rank, d_model))
        self.base = None if base is None else nn.Parameter(base)
        fill(self.up)
        undecayed(*self.parameters())

    def forward(self, x: Seq) -> Seq:
        """Return the setting of each token."""
        low = linear(x, self.down.T)
        change = linear(low if self.f is None else self.f(low), self.up.T)
        return change if self.base is None else self.base + change
