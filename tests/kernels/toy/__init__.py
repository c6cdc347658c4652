"""An op of no package of ours, with kernels that are right, wrong, slow, or take their process with them."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import Op


def toy_reference(x: Float[Tensor, "B T C"], weight: Float[Tensor, "C D"]) -> Float[Tensor, "B T D"]:
    return (x @ weight).sin()


KERNELS = ("right", "shifted", "backward", "end", "bits", "slow", "raises", "crash", "hang")
OP = Op("toy", {"reference": toy_reference, "usual": toy_reference}, others=KERNELS)
OP.package = "tests.kernels.toy"
