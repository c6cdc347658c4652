"""A linear layer, x W^T + b, for every token."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op
from zoo.kernels.linear import onednn

OP = op(__name__, "reference", "onednn")


def linear(
    x: Float[Tensor, "*B D"], weight: Float[Tensor, "E D"], bias: Float[Tensor, " E"] | None = None
) -> Float[Tensor, "*B E"]:
    """Return the linear layer's output x W^T (+ b)."""
    return OP.run("reference" if onednn.unfit(x, weight, bias) else "onednn", x, weight, bias)
