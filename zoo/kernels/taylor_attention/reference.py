"""Define Taylor attention by the matrix of all its weights.

T time, C channels of q and k, V channels of a value; any leading dimensions.
"""

from torch import Tensor


def taylor_attention_reference(q: Tensor, k: Tensor, v: Tensor, eps: float) -> Tensor:
    """Compute attention from all weights 1 + u + u^2/2, u = q k / sqrt C (Based, Eq. 2)."""
    u = (q @ k.mT) / q.shape[-1] ** 0.5
    weights = (1 + u + u.square() / 2).tril()
    return (weights @ v) / (weights.sum(-1, keepdim=True) + eps)
