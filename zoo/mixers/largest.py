"""Mark the largest scores of a row in a mask, with a rule for which of equal ones are taken."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def largest(scores: Float[Tensor, "*any N"], count: int) -> Bool[Tensor, "*any N"]:
    """Mark the `count` largest scores of each row, the first of equal ones (topk promises no order).

    `zoo.kernels.span_retrieval.selection` does the same in `count` passes, for few among many blocks.
    """
    first = scores.sort(dim=-1, descending=True, stable=True).indices[..., :count]
    return torch.zeros_like(scores).scatter(-1, first, 1.0).bool()
