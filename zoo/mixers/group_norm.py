"""RWKV-5, 6 and 7 norm the output of each head by itself."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least
from zoo.mixers.base import Seq
from zoo.mixers.undecayed import undecayed


class HeadsGroupNorm(nn.Module):
    """Norm each head to mean 0 and variance 1 (GroupNorm), then apply a scale and a bias per channel.

    scale: its initial value.  eps is 1e-5 times head_dim.  The published layers divide the outputs by
    sqrt(head_dim) and take 1e-5, or do not divide and take 64e-5 with a head_dim of 64, which is the same.
    """

    def __init__(self, d_model: int, head_dim: int, scale: float) -> None:
        super().__init__()
        at_least("head_dim", head_dim, 2)  # the norm of a single channel is 0
        self.head_dim, self.eps = head_dim, 1e-5 * head_dim
        self.weight = nn.Parameter(torch.full((d_model,), scale))
        self.bias = nn.Parameter(torch.zeros(d_model))
        undecayed(*self.parameters())

    def forward(self, y: Float[Tensor, "B H T C"]) -> Seq:
        """Norm each head's channels and join the heads."""
        y = F.layer_norm(y.transpose(1, 2), (self.head_dim,), eps=self.eps)
        return y.flatten(2) * self.weight + self.bias
