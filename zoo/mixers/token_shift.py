"""RWKV's token shift mixes each token with the one before it, by a share for each channel.

B batch, T time, D model width, J mixtures.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least
from zoo.mixers.base import Seq
from zoo.mixers.undecayed import undecayed


def with_previous(x: Seq, last: Float[Tensor, "B D"] | None) -> tuple[Seq, Float[Tensor, "B D"]]:
    """Return x_{t-1} - x_t, and the last token for the next call; the token before a sequence is zero."""
    if last is None:
        last = torch.zeros_like(x[:, 0])
    return torch.cat([last[:, None], x[:, :-1]], dim=1) - x, x[:, -1]


class TokenShift(nn.Module):
    """Mix each token with the one before it, in J ways: x_t + share_j (x_{t-1} - x_t), each share [D].

    RWKV-4 and 5 call 1 - share their mix.  The shares carry `no_weight_decay = True`, which training reads.
    """

    def __init__(self, *shares: Float[Tensor, "D"]) -> None:
        super().__init__()
        self.share = nn.Parameter(torch.stack(shares))
        undecayed(self.share)

    def forward(self, x: Seq, last: Float[Tensor, "B D"] | None) -> tuple[list[Seq], Float[Tensor, "B D"]]:
        """Return the J mixtures and the last input."""
        change, last = with_previous(x, last)
        return [x + change * share for share in self.share.unbind(0)], last


class Depth(NamedTuple):
    """Hold a layer's place in the model, as RWKV's initial values read it."""

    late: float  # 0 at the lowest layer to 1 at the highest
    early: float  # 1 at the lowest layer to 1 / n_layers at the highest

    @staticmethod
    def of(layer: int, n_layers: int) -> "Depth":
        """Return the place of a layer.  ValueError: a model of that depth has no such layer."""
        at_least("n_layers", n_layers, 1)
        if not 0 <= layer < n_layers:
            raise ValueError(f"layer (={layer}) must be at least 0 and below n_layers (={n_layers}).")
        return Depth(layer / max(n_layers - 1, 1), 1 - layer / n_layers)


def channels(d_model: int) -> Float[Tensor, "D"]:
    """Return i / D, from which initial shares are made: channel 0 sees x_{t-1}, the last one mostly x_t."""
    return torch.arange(d_model) / d_model


def ramp(width: int) -> Float[Tensor, "D"]:
    """Return a line from 0 at the first channel to 1 at the last."""
    return torch.linspace(0, 1, width)
