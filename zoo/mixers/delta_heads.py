"""The delta-rule mixers share these parts: q, k and v, the decay of the memory, and the output projection.

B batch, T time, D model width, H heads, K taps of the convolution, C channels of a head.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.mixers.base import Seq
from zoo.mixers.mamba import first_dt_bias
from zoo.mixers.short_conv import ShortConv
from zoo.mixers.undecayed import undecayed

A_MIN, A_MAX = 1e-3, 16.0


class ConvolvedHeads(nn.Module):
    """Make a delta rule's queries, keys and values, SiLU(conv(x W)), with `head_dims` channels per head."""

    def __init__(self, d_model: int, num_heads: int, head_dims: Sequence[int], kernel_size: int) -> None:
        super().__init__()
        self.num_heads, self.sizes = num_heads, [num_heads * size for size in head_dims]
        self.proj = nn.Linear(d_model, sum(self.sizes), bias=False)
        self.conv = ShortConv(sum(self.sizes), kernel_size, bias=False)

    def forward(
        self, x: Seq, tail: Float[Tensor, "B K-1 C"] | None
    ) -> tuple[list[Float[Tensor, "B H T C"]], Float[Tensor, "B K-1 C"]]:
        """Return the parts, split into heads, and the convolution's tail after `x`."""
        mixed, new_tail = self.conv(self.proj(x), tail)
        parts = F.silu(mixed).split(self.sizes, dim=-1)
        return [part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in parts], new_tail


def unit(x: Float[Tensor, "*any C"]) -> Float[Tensor, "*any C"]:
    """Scale x to length 1, in float32 at least, and smoothly around 0."""
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    return x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt()


class Forgetting(nn.Module):
    """Compute each head's decay of its memory from the token, with Mamba-2's formula and initial values:
    log alpha = -exp(A_log) softplus(x W + dt_bias), one per head.

    A_log and dt_bias carry `no_weight_decay = True`, which training reads.
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.proj = nn.Linear(d_model, num_heads, bias=False)
        self.A_log = nn.Parameter(torch.empty(num_heads).uniform_(0, A_MAX).clamp(min=A_MIN).log())
        self.dt_bias = nn.Parameter(first_dt_bias(num_heads))
        undecayed(self.A_log, self.dt_bias)

    def forward(self, x: Seq) -> Float[Tensor, "B H T"]:
        """Return the log of each head's decay at each token."""
        return (-self.A_log.exp() * F.softplus(self.proj(x) + self.dt_bias)).transpose(1, 2)


class HeadsOutput(nn.Module):
    """Norm each head's output (RMSNorm), then gate it by SiLU if `gate` is true, then project it to D."""

    def __init__(self, d_model: int, num_heads: int, head_dim: int, gate: bool, eps: float = 1e-5) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(head_dim, eps=eps)
        self.gate = nn.Linear(d_model, num_heads * head_dim, bias=False) if gate else None
        self.proj = nn.Linear(num_heads * head_dim, d_model, bias=False)

    def forward(self, y: Float[Tensor, "B H T C"], x: Seq) -> Seq:
        """Return the layer's output, from the heads' outputs `y` for the inputs `x`."""
        y = self.norm(y.to(self.norm.weight.dtype)).transpose(1, 2).flatten(2)
        if self.gate is not None:
            y = y * F.silu(self.gate(x))
        return self.proj(y.to(x.dtype))
