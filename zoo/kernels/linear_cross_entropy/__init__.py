"""Cross-entropy of a linear head, its gradients included, without holding all logits."""

from jaxtyping import Float, Int
from torch import Tensor

from zoo.kernels.choice import Op
from zoo.kernels.linear_cross_entropy.chunked import answer_scores, linear_cross_entropy_chunked
from zoo.kernels.linear_cross_entropy.reference import IGNORED, linear_cross_entropy_reference

OP = Op(
    "linear_cross_entropy",
    {"reference": linear_cross_entropy_reference, "chunked": linear_cross_entropy_chunked},
)


def linear_cross_entropy(
    x: Float[Tensor, "N D"], weight: Float[Tensor, "V D"], target: Int[Tensor, " N"]
) -> Float[Tensor, ""]:
    """Return the mean cross-entropy, in nats, of `target` under softmax(x weight^T).  First derivatives only.

    The mean is over the rows whose target is not IGNORED.
    """
    return OP.run("chunked", x, weight, target)


__all__ = [
    "IGNORED",
    "OP",
    "answer_scores",
    "linear_cross_entropy",
    "linear_cross_entropy_chunked",
    "linear_cross_entropy_reference",
]
