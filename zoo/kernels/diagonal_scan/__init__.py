"""The recurrence of a diagonal linear RNN, real and with a decay of its own at every step."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.diagonal_scan.in_place import diagonal_scan_in_place
from zoo.kernels.diagonal_scan.reference import diagonal_scan_reference


def diagonal_scan(
    decay: Float[Tensor, "... T D"], x: Float[Tensor, "... T D"], state: Float[Tensor, "... D"] | None = None
) -> tuple[Float[Tensor, "... T D"], Float[Tensor, "... D"]]:
    """h_t = decay_t h_{t-1} + x_t.  Returns all h and the last.  state: h before the first step; None: 0."""
    form = diagonal_scan_reference if x.shape[-2] == 1 else diagonal_scan_in_place
    return form(decay, x, state)


__all__ = ["diagonal_scan", "diagonal_scan_in_place", "diagonal_scan_reference"]
