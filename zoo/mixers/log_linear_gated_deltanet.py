"""Log-linear Gated DeltaNet cuts the past into power-of-two pieces, each with a memory and a weight.

Guo et al. 2025, "Log-Linear Attention" (arXiv 2506.04761), over Gated DeltaNet (arXiv 2412.06464).

B batch, T time, D model width, H heads, C channels of a query or key, V of a value, S pieces, L levels.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, covers
from zoo.kernels.common.decay import decays
from zoo.kernels.log_linear_attention.chunked import by_level, in_blocks, with_pieces
from zoo.mixers.base import Seq
from zoo.mixers.delta_heads import unit
from zoo.mixers.gated_deltanet import GatedDeltaNet
from zoo.mixers.state import StateSize
from zoo.mixers.undecayed import undecayed


class State(NamedTuple):
    memory: Float[Tensor, "B S H C V"]  # from the smallest and newest piece
    tail: Float[Tensor, "B K-1 H*(2C+V)"]
    offset: int


class LogLinearGatedDeltaNet(GatedDeltaNet):
    """Run Gated DeltaNet with a memory for each piece of the past, whose weight the token sets:
    y_t = sum_l softplus(level_weight_l (x W)_l) S_l^T q_t / sqrt C, with one S per piece of the past.

    Each token's transition alpha (I - beta k k^T) acts on every S; its beta k v^T enters level 0.  After n
    tokens there is a piece for each digit 1 of the binary number n, as in log-linear Mamba-2; the sum of all
    S is Gated DeltaNet's.  max_len: longest sequence, which sets the number of levels.
    A_log, dt_bias and level_weight carry `no_weight_decay = True`, which training reads.
    """

    def __init__(self, *, d_model: int, num_heads: int, max_len: int, **rest: Any) -> None:
        super().__init__(d_model=d_model, num_heads=num_heads, **rest)
        at_least("max_len", max_len, 1)
        self.max_len, num_levels = max_len, (max_len - 1).bit_length() + 1
        self.levels = nn.Linear(d_model, num_heads * num_levels, bias=False)
        self.level_weight = nn.Parameter(torch.ones(num_heads, num_levels))
        undecayed(self.level_weight)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run block by block; keep a matrix for each piece and head, and the convolution's tail."""
        memory, tail, offset = (None, None, 0) if state is None else state
        self.check_length(offset + x.shape[1])
        (q, k, v), tail = self.qkv(x, tail)
        beta = self.most * self.beta(x).sigmoid().transpose(1, 2)
        scales = F.softplus(self.level_weight * self.levels(x).unflatten(-1, (self.num_heads, -1)))
        with torch.autocast(x.device.type, enabled=False):
            q, k = unit(q) * self.head_dim**-0.5, unit(k)
            tokens = (q, k, v.to(k.dtype), beta.to(k.dtype), self.forget(x), scales.transpose(1, 2))
            y, memory = in_blocks(tokens, memory, offset, _answers)
        return self.output(y, x), State(memory, tail, offset + x.shape[1])

    def check_length(self, seq_len: int) -> None:
        """Raise ValueError for more than max_len tokens, which would need a level without weights."""
        covers("max_len", self.max_len, seq_len)

    def state_size(self, seq_len: int) -> StateSize:
        """Count a matrix per head for each binary digit 1 of the number of tokens, and the tail."""
        memory = self.num_heads * self.head_dim * self.value_dim
        return StateSize.read_whole(memory * seq_len.bit_count() + self.qkv.conv.tail_size())


def _answers(
    tokens: list[Float[Tensor, "B H N C *any"]], live: dict[int, Tensor]
) -> Float[Tensor, "B H N*C V"]:
    """Return the outputs of N blocks of one size, and update the pieces in `live` to their end.

    What a block writes is linear in its values and in the state that it starts from, as in the chunked delta
    rule (zoo/kernels/delta_rule/chunked.py): `reads` are the weights of its own values in its outputs.
    """
    q, k, v, beta, log_alpha, scales = tokens
    left, since_start = decays(log_alpha)
    overlaps = (beta[..., None] * k) @ k.mT * left
    writes = torch.linalg.solve_triangular(overlaps, torch.diag_embed(beta), upper=False, unitriangular=True)
    reads = q @ k.mT * left @ writes
    inside = by_level(scales, reads) @ v
    k_in, k_out = k * since_start, (k * left[..., -1, :, None]).mT
    q_in, added = q * since_start - reads @ k_in, k_out @ (writes @ v)
    identity = torch.eye(k.shape[-1], dtype=k.dtype, device=k.device)
    carry = identity * since_start[..., -1:, :] - k_out @ (writes @ k_in)
    return with_pieces(inside, q_in, scales, carry, added, live, torch.matmul)
