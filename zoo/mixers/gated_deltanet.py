"""Gated DeltaNet applies the delta rule to a memory that also forgets (Yang et al. 2024, arXiv 2412.06464).

B batch, T time, D model width, H heads, C channels of a query or key (H * C == D), V = expand_v * C channels
of a value, K taps of the convolution.
"""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple
from zoo.kernels.delta_rule import delta_rule
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.delta_heads import ConvolvedHeads, Forgetting, HeadsOutput, unit
from zoo.mixers.state import StateSize


class State(NamedTuple):
    memory: Float[Tensor, "B H C V"]
    tail: Float[Tensor, "B K-1 H*(2C+V)"]


class GatedDeltaNet(Mixer[State]):
    """Decay a matrix per head, then move what it returns for the token's key towards the token's value:
    S_t = alpha_t (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T,  y_t = S_t^T q_t / sqrt C  (Eq. 10).

    q, k and v are SiLU(conv(x W)), q and k scaled to norm 1; beta = sigmoid(x W) and the decay alpha
    (`Forgetting`) are one per head; each head's output passes an RMSNorm and a SiLU gate.
    allow_neg_eigval: beta in (0, 2) instead of (0, 1) (Grazzi et al. 2024, arXiv 2411.12537).
    The paper's own models have H * C = 3/4 D, for the parameter count of a language model; here it is D.
    """

    def __init__(
        self, *, d_model: int, num_heads: int, expand_v: int, kernel_size: int, allow_neg_eigval: bool
    ) -> None:
        super().__init__()
        multiple("d_model", d_model, "num_heads", num_heads)
        at_least("expand_v", expand_v, 1)
        self.d_model, self.num_heads, self.head_dim = d_model, num_heads, d_model // num_heads
        self.expand_v, self.kernel_size, self.value_dim = expand_v, kernel_size, expand_v * self.head_dim
        self.most = 2.0 if allow_neg_eigval else 1.0
        self.qkv = ConvolvedHeads(
            d_model, num_heads, [self.head_dim, self.head_dim, self.value_dim], kernel_size
        )
        self.beta = nn.Linear(d_model, num_heads, bias=False)
        self.forget = Forgetting(d_model, num_heads)
        self.output = HeadsOutput(d_model, num_heads, self.value_dim, gate=True)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Forget, then write by the delta rule; keep the matrix and the convolution's tail."""
        memory, tail = (None, None) if state is None else state
        (q, k, v), tail = self.qkv(x, tail)
        beta = self.most * self.beta(x).sigmoid().transpose(1, 2)
        y, memory = delta_rule(unit(q) * self.head_dim**-0.5, unit(k), v, beta, self.forget(x), memory)
        return self.output(y, x), State(memory, tail)

    def state_size(self, seq_len: int) -> StateSize:
        """Count a matrix per head, and the tail, which the published count leaves out."""
        del seq_len
        memory = self.num_heads * self.head_dim * self.value_dim
        return StateSize.read_whole(memory + self.qkv.conv.tail_size(), paper=memory)
