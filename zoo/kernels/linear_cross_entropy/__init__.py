"""Cross-entropy of a linear output layer, and its gradients, without holding all logits in memory."""

from jaxtyping import Float, Int
from torch import Tensor

from zoo.kernels.choice import op
from zoo.kernels.linear_cross_entropy.chunked import answer_scores
from zoo.kernels.linear_cross_entropy.reference import IGNORED

OP = op(__name__, "reference", "chunked")


def linear_cross_entropy(
    x: Float[Tensor, "N D"], weight: Float[Tensor, "V D"], target: Int[Tensor, " N"]
) -> Float[Tensor, ""]:
    """Return the mean cross-entropy, in nats, of `target` under softmax(x weight^T).  First derivatives only.

    The mean is over the rows whose target is not IGNORED.
    """
    return OP.run("chunked", x, weight, target)


__all__ = ["IGNORED", "OP", "answer_scores", "linear_cross_entropy"]
