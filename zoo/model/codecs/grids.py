"""The values that a number format can hold, and how numbers are rounded to them.

`noise` is uniform in [0, 1), one number for each of `x`.  With noise, rounding is stochastic: up with the
probability that preserves the mean.  Without noise, it is to the nearest value, ties to even.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

Values = Float[Tensor, "*any"]


class Grid(ABC):
    """A set of values, symmetric around zero.  most: the largest of them."""

    most: float

    @abstractmethod
    def round(self, x: Values, noise: Values | None) -> Values:
        """Return the grid's value to which each number is rounded: the nearer end for numbers beyond it."""


@dataclass(frozen=True)
class Whole(Grid):
    """The whole numbers from -most to most."""

    most: float

    def round(self, x: Values, noise: Values | None) -> Values:
        rounded = x.round() if noise is None else _up_or_down(x, noise)
        return rounded.clamp(-self.most, self.most)


@dataclass(frozen=True)
class Floating(Grid):
    """Floating-point numbers: `mantissa` bits after the point, subnormal below 2**least, no infinity.

    dtype: torch's own type of these numbers, where it has one; it rounds to nearest.
    """

    mantissa: int
    least: int
    most: float
    dtype: torch.dtype | None = None

    def round(self, x: Values, noise: Values | None) -> Values:
        inside = x.clamp(-self.most, self.most)
        if noise is None and self.dtype is not None:
            return inside.to(self.dtype).to(x.dtype)
        wide = inside.double()  # the step of bfloat16's smallest numbers has no inverse in float32
        exponent = torch.frexp(wide).exponent - 1
        step = torch.exp2((exponent.clamp(min=self.least) - self.mantissa).double())
        steps = wide / step
        return ((steps.round() if noise is None else _up_or_down(steps, noise)) * step).to(x.dtype)


@dataclass(frozen=True)
class Signs(Grid):
    """The values minus one and one; without noise zero is rounded to one."""

    most: float = 1.0

    def round(self, x: Values, noise: Values | None) -> Values:
        up = x >= 0 if noise is None else noise < (x + 1) / 2
        return torch.where(up, 1.0, -1.0).to(x.dtype)


def _up_or_down(x: Values, noise: Values) -> Values:
    """Round to a whole number, up with the fractional part as probability."""
    low = x.floor()
    return low + (noise < x - low)
