"""The head and the loss, written out."""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

IGNORED = -100  # in place of a target, as torch's losses have it: this row has no loss


def linear_cross_entropy_reference(
    x: Float[Tensor, "N D"], weight: Float[Tensor, "V D"], target: Int[Tensor, " N"]
) -> Float[Tensor, ""]:
    """Mean cross-entropy, in nats, of `target` under softmax(x weight^T).  Holds all N * V logits.

    The mean is over the rows whose target is not IGNORED; the others have no gradient.
    """
    return F.cross_entropy(F.linear(x, weight), target, ignore_index=IGNORED)
