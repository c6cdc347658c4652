"""The head and the loss, written out."""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def linear_cross_entropy_reference(
    x: Float[Tensor, "N D"], weight: Float[Tensor, "V D"], target: Int[Tensor, " N"]
) -> Float[Tensor, ""]:
    """Mean cross-entropy, in nats, of `target` under softmax(x weight^T).  Holds all N * V logits."""
    return F.cross_entropy(F.linear(x, weight), target)
