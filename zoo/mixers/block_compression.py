"""One token for each block of tokens: the learned compression of NSA (arXiv 2502.11089, Eq. 7).

B batch, G key/value heads, S tokens, N blocks, C channels per head.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class BlockCompression(nn.Module):
    """An MLP on the `size` tokens from every `stride`-th on, each plus an embedding of its place among them.

    All heads share it.  The paper leaves width and initial values open: here the hidden layer has the
    channels of two heads, the weights keep the size of what they mix, and the places start at 0.
    """

    def __init__(self, head_dim: int, size: int, stride: int) -> None:
        super().__init__()
        self.size, self.stride = size, stride
        self.places = nn.Parameter(torch.zeros(size, head_dim))
        self.inner = nn.Linear(size * head_dim, 2 * head_dim)
        self.outer = nn.Linear(2 * head_dim, head_dim, bias=False)  # a bias of all keys changes no weight
        for layer in (self.inner, self.outer):
            nn.init.kaiming_normal_(layer.weight)

    def count(self, num_tokens: int) -> int:
        """Count the complete blocks among `num_tokens` tokens."""
        return max(0, (num_tokens - self.size) // self.stride + 1)

    def forward(self, x: Float[Tensor, "B G S C"]) -> Float[Tensor, "B G N C"]:
        """Return one token for each complete block; none before the first is complete."""
        if not self.count(x.shape[2]):
            return x[:, :, :0]
        blocks = x.unfold(2, self.size, self.stride).mT + self.places
        return self.outer(F.gelu(self.inner(blocks.flatten(-2))))
