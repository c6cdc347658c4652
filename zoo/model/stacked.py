"""The ends of a model whose task is `stacked`: two tokens to a place, embeddings that are not trained.

As HazyResearch/zoology has it for its continuous MQAR (zoology/model.py, ContinuousInputModel, January 2026):
the embedding of the key beside that of the value goes through a linear layer, the last hidden state through
another, and what comes out is compared with the embeddings of all values: random unit vectors.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class StackedEnds(nn.Module):
    """The ends for inputs left + M * right with M = V/2: right 0 is nothing, right r is the value r - 1.

    embedding: rows of the M keys, then of the M values; the model owns it.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.into = nn.Linear(2 * d_model, d_model)
        self.out = nn.Linear(d_model, d_model)

    def embed(self, inputs: Int[Tensor, "B T"], embedding: Float[Tensor, "V D"]) -> Float[Tensor, "B T D"]:
        """Embed and join both sides of a stacked token; a right side of 0 is none."""
        half = embedding.shape[0] // 2
        left, right = inputs % half, inputs // half
        value = nn.functional.embedding(half + (right - 1).clamp(min=0), embedding)
        sides = nn.functional.embedding(left, embedding), value * (right > 0)[..., None]
        return self.into(torch.cat(sides, -1))


def spherical(vocab_size: int, d_model: int) -> Float[Tensor, "V D"]:
    """Draw vectors of length 1 in uniform directions."""
    return nn.functional.normalize(torch.randn(vocab_size, d_model), dim=1)
