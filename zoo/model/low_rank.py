"""LoRA (Hu et al. 2021, arXiv 2106.09685): W + (alpha / r) B A, with W frozen.

The sum is a parametrisation of the weight itself (torch.nn.utils.parametrize), not a module around the
linear layer: where mixers read `linear.weight` without calling the layer (a fused kernel, the rows of one
head, a landmark), they find the sum too.  A wrapper, as peft has it, would be skipped there.

R rows, C columns of W, r rank.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import parametrize

from zoo.model import seeded


class LowRank(nn.Module):
    """Add (alpha / r) B A to W.  parts: bounds of rows of W, each with its own A and B; other rows stay.

    A starts as nn.Linear's weights do and B at zero, so that the sum is W at first.
    """

    def __init__(
        self, weight: Float[Tensor, "R C"], parts: Sequence[tuple[int, int]], rank: int, alpha: float
    ):
        super().__init__()
        self.parts, self.scale = tuple(parts), alpha / rank
        self.a = nn.ParameterList(weight.new_empty(rank, weight.shape[1]) for _ in parts)
        self.b = nn.ParameterList(weight.new_zeros(stop - start, rank) for start, stop in parts)
        for a in self.a:
            nn.init.kaiming_uniform_(a, a=5**0.5)

    def forward(self, weight: Float[Tensor, "R C"]) -> Float[Tensor, "R C"]:
        """Return the weight plus the adapters' products, each in its rows."""
        rows = weight.shape[0]
        pads = ((0, 0, start, rows - stop) for start, stop in self.parts)
        sums = (F.pad(b @ a, pad) for a, b, pad in zip(self.a, self.b, pads, strict=True))
        return torch.stack([*sums]).sum(0).mul(self.scale).add(weight)


def attach(
    linear: nn.Linear, parts: Sequence[tuple[int, int]], rank: int, alpha: float, seed: int, name: str
) -> None:
    """Give the layer's weight adapters, drawn from (seed, name) as every part's weights are."""
    with seeded(seed, f"adapters.{name}"):
        parametrize.register_parametrization(linear, "weight", LowRank(linear.weight, parts, rank, alpha))


def merge(model: nn.Module) -> None:
    """Replace each adapted weight by its sum, so that the model has no adapters any more.

    This is done by hand: torch's removal takes the property off a class that copies of the model share.
    """
    for module in [*model.modules()]:
        if isinstance(module, nn.Linear) and parametrize.is_parametrized(module, "weight"):
            weight = nn.Parameter(module.weight.detach())
            del module.parametrizations
            module.__class__ = type(module).__base__  # pyright: ignore
            module.weight = weight


@dataclass(frozen=True)
class Trainable:
    """The number of a model's scalars that train, and the number of all."""

    trained: int
    total: int

    @property
    def share(self) -> float:
        """The share of the scalars that trains."""
        return self.trained / self.total


def counted(model: nn.Module) -> Trainable:
    """Count the scalars that train, and all scalars of the model without adapters."""
    parameters = [*model.parameters()]
    adapters = {id(p) for m in model.modules() if isinstance(m, LowRank) for p in m.parameters()}
    return Trainable(
        sum(p.numel() for p in parameters if p.requires_grad),
        sum(p.numel() for p in parameters if id(p) not in adapters),
    )
