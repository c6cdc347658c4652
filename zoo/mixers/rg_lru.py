"""Griffin's recurrent block runs a short convolution and the real-gated linear recurrent unit, times a gate.

De et al. 2024, "Griffin: Mixing Gated Linear Recurrences with Local Attention" (arXiv 2402.19427), Sec. 2.3
and 2.4.

B batch, T time, D model width, E inner width, H blocks of P channels (E = H P), K taps of the convolution.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import multiple
from zoo.kernels.diagonal_scan import diagonal_scan
from zoo.kernels.linear import linear
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.short_conv import ShortConv
from zoo.mixers.state import StateSize
from zoo.mixers.undecayed import undecayed

SHARPNESS = 8.0  # the paper's c
SLOWEST, FASTEST = 0.999, 0.9  # what a fresh channel keeps of its state where its gate is open
LEAST = 1e-10  # of 1 - a^2, whose root has no finite gradient at 0


class State(NamedTuple):
    h: Float[Tensor, "B E"]
    tail: Float[Tensor, "B K-1 E"]


class RGLRU(Mixer[State]):
    """Run one gated linear recurrence per channel after a short convolution, and gate its output:
    h_t = a_t h_{t-1} + sqrt(1 - a_t^2) (i_t x_t), a_t = sigmoid(Lambda)^(c r_t), r and i gates of x.

    The weights of both gates are block-diagonal.  The authors' code leaves out the root at a sequence's first
    token; the paper does not, and neither does this.  The gate's GELU is that of the authors' code, which
    approximates it by tanh (github.com/google-deepmind/recurrentgemma, 2efa84d).

    num_heads: H; 1 makes the gates dense.  d_inner: E; None: d_model (the paper's have about 4/3 of it).
    """

    def __init__(self, *, d_model: int, num_heads: int, d_inner: int | None, kernel_size: int) -> None:
        super().__init__()
        self.num_heads, self.d_inner = num_heads, d_model if d_inner is None else d_inner
        multiple("d_inner", self.d_inner, "num_heads", num_heads)
        self.in_proj = nn.Linear(d_model, 2 * self.d_inner)
        self.conv = ShortConv(self.d_inner, kernel_size)
        head_dim = self.d_inner // num_heads
        self.gate_weight = nn.Parameter(torch.empty(num_heads, head_dim, 2 * head_dim))
        self.gate_bias = nn.Parameter(torch.empty(num_heads, 2 * head_dim))
        self.Lambda = nn.Parameter(torch.empty(self.d_inner))
        self.out_proj = nn.Linear(self.d_inner, d_model)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw weights by fan-in, and Lambda so that a channel keeps between FASTEST and SLOWEST per step."""
        for weight, fan_in in (
            (self.in_proj.weight, self.in_proj.in_features),
            (self.out_proj.weight, self.d_inner),
            (self.gate_weight, self.d_inner // self.num_heads),
        ):
            nn.init.normal_(weight, std=fan_in**-0.5)
        for bias in (self.in_proj.bias, self.out_proj.bias, self.gate_bias):
            nn.init.zeros_(bias)
        retention = torch.empty(self.d_inner).uniform_(FASTEST, SLOWEST)
        self.Lambda.copy_(-torch.expm1(-retention.log() / SHARPNESS).log())  # sigmoid(Lambda)^c is kept
        undecayed(self.Lambda)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Scan the gated inputs channel by channel; keep one number per channel and the tail."""
        h, tail = (None, None) if state is None else state
        u, gate = self.in_proj(x).chunk(2, dim=-1)
        u, tail = self.conv(u, tail)
        with torch.autocast(x.device.type, enabled=False):
            y, h = self._recur(u.to(torch.promote_types(x.dtype, torch.float32)), h)
        return self.out_proj(y.to(gate.dtype) * F.gelu(gate, approximate="tanh")), State(h, tail)

    def _recur(self, u: Float[Tensor, "B T E"], h: Tensor | None) -> tuple[Tensor, Tensor]:
        heads = u.chunk(self.num_heads, dim=-1)
        gates = [linear(x, w.T, b) for x, w, b in zip(heads, self.gate_weight, self.gate_bias, strict=True)]
        r, i = (g.flatten(2) for g in torch.sigmoid(torch.stack(gates, 2)).chunk(2, dim=-1))
        log_a = -SHARPNESS * F.softplus(-self.Lambda) * r
        root = (-torch.expm1(2 * log_a)).clamp(min=LEAST).sqrt()
        return diagonal_scan(log_a.exp(), root * (i * u), h)

    def state_size(self, seq_len: int) -> StateSize:
        """Count one number per channel, and the tail."""
        return StateSize.read_whole(self.d_inner + self.conv.tail_size())
