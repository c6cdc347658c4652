"""The summary that a block of the past is scored by (Expansion Span paper, arXiv 2412.13328, section 3).

B batch, H heads, U blocks, Q queries of a block, S its tokens, C channels per head.
"""

from jaxtyping import Float
from torch import Tensor


def attended(
    q: Float[Tensor, "B H U Q C"], k: Float[Tensor, "B H U S C"], v: Float[Tensor, "B H U S C"]
) -> Float[Tensor, "B H U C"]:
    """Return attention inside each block, not causal, then the mean over its queries."""
    weights = (q @ k.mT * q.shape[-1] ** -0.5).softmax(dim=-1).mean(dim=-2, keepdim=True)
    return (weights @ v).squeeze(-2)


def in_blocks(x: Float[Tensor, "B H T C"], block_size: int) -> Float[Tensor, "B H U S C"]:
    """Cut `x` into whole blocks; tokens left at its end are dropped."""
    whole = x.shape[2] - x.shape[2] % block_size
    return x[:, :, :whole].unflatten(2, (whole // block_size, block_size))
