"""Gated DeltaProduct takes several steps of the delta rule for each token, with keys and values of their own.

Siems et al. 2025, "DeltaProduct: Improving State-Tracking in Linear RNNs via Householder Products" (arXiv
2502.10297).  A token's transition is a product of n generalised Householder matrices, where DeltaNet has one:
with beta up to 2 it can be any rotation in n dimensions.

B batch, T time, D model width, H heads, C channels of a query or key (H * C == D), V = expand_v * C channels
of a value, n steps per token, K taps of the convolution.
"""

from typing import NamedTuple

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple
from zoo.kernels.delta_rule import delta_rule
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.delta_heads import ConvolvedHeads, Forgetting, HeadsOutput, unit
from zoo.mixers.state import StateSize


class State(NamedTuple):
    memory: Float[Tensor, "B H C V"]
    tail: Float[Tensor, "B K-1 H*(C+nC+nV)"]


class GatedDeltaProduct(Mixer[State]):
    """Decay a matrix per head, then n times move what it returns for a key of the token towards a value:
    S <- alpha_t S; for i = 1 .. n: S <- S + beta_i k_i (v_i - S^T k_i)^T; then y_t = S^T q_t / sqrt C.

    num_householder: n; 1 is Gated DeltaNet.  forget_gate: whether there is an alpha (`Forgetting`); without
    it this is DeltaProduct.  allow_neg_eigval: beta in (0, 2), as the paper has it, instead of (0, 1).
    """

    def __init__(
        self,
        *,
        d_model: int,
        num_heads: int,
        num_householder: int,
        expand_v: int,
        kernel_size: int,
        forget_gate: bool,
        allow_neg_eigval: bool,
    ) -> None:
        super().__init__()
        multiple("d_model", d_model, "num_heads", num_heads)
        at_least("num_householder", num_householder, 1)
        at_least("expand_v", expand_v, 1)
        self.d_model, self.num_heads, self.head_dim = d_model, num_heads, d_model // num_heads
        self.num_householder, self.expand_v, self.kernel_size = num_householder, expand_v, kernel_size
        self.most = 2.0 if allow_neg_eigval else 1.0
        value_dim = expand_v * self.head_dim
        head_dims = [self.head_dim, num_householder * self.head_dim, num_householder * value_dim]
        self.qkv = ConvolvedHeads(d_model, num_heads, head_dims, kernel_size)
        self.beta = nn.Linear(d_model, num_heads * num_householder, bias=False)
        self.forget = Forgetting(d_model, num_heads) if forget_gate else None
        self.output = HeadsOutput(d_model, num_heads, value_dim, gate=True)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Take n delta-rule steps per token, forgetting before the first; keep the matrix after the last."""
        memory, tail = (None, None) if state is None else state
        (q, k, v), tail = self.qkv(x, tail)
        n = self.num_householder
        k, v = (part.unflatten(-1, (n, -1)).flatten(2, 3) for part in (k, v))
        beta = self.most * self.beta(x).sigmoid().unflatten(-1, (-1, n)).transpose(1, 2).flatten(2)
        decay = None if self.forget is None else F.pad(self.forget(x)[..., None], (0, n - 1)).flatten(2)
        y, memory = delta_rule(unit(q) * self.head_dim**-0.5, unit(k), v, beta, decay, memory)
        return self.output(y, x), State(memory, tail)

    def state_size(self, seq_len: int) -> StateSize:
        """Count one matrix per head whatever n is (only a token's last step is kept), and the tail."""
        del seq_len
        held = self.num_heads * self.head_dim**2 * self.expand_v + self.qkv.conv.tail_size()
        return StateSize.read_whole(held)
