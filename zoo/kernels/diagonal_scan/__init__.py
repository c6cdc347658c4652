"""The diagonal linear recurrence h = decay h + x, with a real decay for each channel at each step."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op

OP = op(__name__, "reference", "in_place", others=("triton",))


def diagonal_scan(
    decay: Float[Tensor, "... T D"], x: Float[Tensor, "... T D"], state: Float[Tensor, "... D"] | None = None
) -> tuple[Float[Tensor, "... T D"], Float[Tensor, "... D"]]:
    """Compute h_t = decay_t h_{t-1} + x_t; return all h and the last.  state: h before the first; None: 0."""
    usual = "reference" if x.shape[-2] == 1 else "in_place"
    return OP.run(usual, decay, x, state)
