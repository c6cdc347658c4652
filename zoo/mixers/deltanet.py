"""DeltaNet erases what its linear memory already returns for a key before it writes the key's value.

Schlag et al. 2021 (arXiv 2102.11174); with convolution, L2 norm and in parallel over time Yang et al. 2024
(arXiv 2406.06484).

B batch, T time, D model width, H heads, C channels per head (H * C == D), K taps of the convolution.
"""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import multiple
from zoo.kernels.delta_rule import delta_rule
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.delta_heads import ConvolvedHeads, HeadsOutput, unit
from zoo.mixers.state import StateSize


class State(NamedTuple):
    memory: Float[Tensor, "B H C C"]
    tail: Float[Tensor, "B K-1 3D"]


class DeltaNet(Mixer[State]):
    """Move what a matrix per head returns for the token's key towards the token's value:
    S_t = S_{t-1} + beta_t k_t (v_t - S_{t-1}^T k_t)^T,  y_t = S_t^T q_t / sqrt C  (2406.06484, Eq. 1).

    q, k and v are SiLU(conv(x W)), q and k scaled to norm 1; beta = sigmoid(x W), one per head.
    allow_neg_eigval: beta in (0, 2) instead of (0, 1), so that a write may flip the sign of a direction of
    the memory (Grazzi et al. 2024, arXiv 2411.12537).
    """

    def __init__(self, *, d_model: int, num_heads: int, kernel_size: int, allow_neg_eigval: bool) -> None:
        super().__init__()
        multiple("d_model", d_model, "num_heads", num_heads)
        self.d_model, self.num_heads, self.head_dim = d_model, num_heads, d_model // num_heads
        self.kernel_size = kernel_size
        self.most = 2.0 if allow_neg_eigval else 1.0
        self.qkv = ConvolvedHeads(d_model, num_heads, [self.head_dim] * 3, kernel_size)
        self.beta = nn.Linear(d_model, num_heads, bias=False)
        self.output = HeadsOutput(d_model, num_heads, self.head_dim, gate=False)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Write the new keys and values by the delta rule; keep the matrix and the convolution's tail."""
        memory, tail = (None, None) if state is None else state
        (q, k, v), tail = self.qkv(x, tail)
        beta = self.most * self.beta(x).sigmoid().transpose(1, 2)
        y, memory = delta_rule(unit(q) * self.head_dim**-0.5, unit(k), v, beta, state=memory)
        return self.output(y, x), State(memory, tail)

    def state_size(self, seq_len: int) -> StateSize:
        """Count a matrix per head, and the tail, which the published count leaves out."""
        del seq_len
        memory = self.num_heads * self.head_dim**2
        return StateSize.read_whole(memory + self.qkv.conv.tail_size(), paper=memory)
