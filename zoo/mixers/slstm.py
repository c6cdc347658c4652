"""sLSTM is xLSTM's cell of scalars, whose gates read its last output, so that only a loop computes it.

Beck et al. 2024, "xLSTM: Extended Long Short-Term Memory" (arXiv 2405.04517), Section 2.2 and Figure 9, with
the initial values of the authors' code.

B batch, T time, D model width, H heads of P channels (D = H P), K taps.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.short_conv import ShortConv
from zoo.mixers.state import StateSize


class State(NamedTuple):
    y: Float[Tensor, "B H P"]
    c: Float[Tensor, "B H P"]  # exp(-m) times the sum of the gated tanh z
    n: Float[Tensor, "B H P"]  # exp(-m) times the sum of the gates
    m: Float[Tensor, "B H P"]
    tail: Float[Tensor, "B K-1 D"]


class SLSTM(Mixer[State]):
    """Step an LSTM cell with exponential input gates, which also read the last output of their head:
    c_t = f_t c_{t-1} + i_t tanh z_t, n_t = f_t n_{t-1} + i_t, y_t = sigmoid(o_t) c_t / n_t.

    i = exp, f = sigmoid.  i and f see SiLU(conv(x)), z and o the token itself, and all four the last y of
    their head, by weights that are block-diagonal in the heads.  c and n are kept times exp(-m),
    m_t = max(log f_t + m_{t-1}, log i_t), which does not change y.  The output is y after a LayerNorm per
    head without a bias.

    layer, n_layers: forget gates start slower in higher layers.  The weights on y start at 0.
    """

    def __init__(self, *, d_model: int, num_heads: int, kernel_size: int, layer: int, n_layers: int) -> None:
        super().__init__()
        multiple("d_model", d_model, "num_heads", num_heads)
        at_least("layer", layer, 0)
        at_least("n_layers", n_layers, layer + 1)
        self.d_model, self.num_heads, self.head_dim = d_model, num_heads, d_model // num_heads
        at_least("d_model / num_heads", self.head_dim, 2)  # the norm of a single channel is 0
        self.conv = ShortConv(d_model, kernel_size)
        shape = (num_heads, self.head_dim, 4 * self.head_dim)  # of i, f, z and o
        self.weight = nn.Parameter(torch.randn(shape) * (2 / (5 * self.head_dim)) ** 0.5)
        self.recurrent = nn.Parameter(torch.zeros(shape))
        bias = torch.zeros(num_heads, 1, 4, self.head_dim)
        slope = 0.3 + 1.3 * layer / max(n_layers - 1, 1)
        bias[:, :, 1] = 5 - 12 * torch.linspace(0, 1, self.head_dim) ** slope
        self.bias = nn.Parameter(bias.flatten())
        self.norm_weight = nn.Parameter(torch.ones(d_model))

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Step through the tokens; keep the last output, sum, normaliser and maximum, and the tail."""
        mixed, tail = self.conv(x, None if state is None else state.tail)
        with torch.autocast(x.device.type, enabled=False):
            raw = self._inputs(F.silu(mixed.to(self.weight.dtype)), x.to(self.weight.dtype))
            cell = self._start(raw) if state is None else state[:4]
            ys = []
            for raw_t in raw.unbind(2):
                cell = self._step(raw_t, *cell)
                ys.append(cell[0])
            y = F.layer_norm(torch.stack(ys, dim=1), (self.head_dim,)).flatten(2) * self.norm_weight
        return y.to(x.dtype), State(*cell, tail)

    def _inputs(self, mixed: Seq, x: Seq) -> Float[Tensor, "B H T 4*P"]:
        half = 2 * self.head_dim
        mixed, x = (s.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for s in (mixed, x))
        parts = [mixed @ self.weight[..., :half], x @ self.weight[..., half:]]
        return torch.cat(parts, dim=-1) + self.bias.unflatten(0, (self.num_heads, 1, -1))

    def _start(self, raw: Float[Tensor, "B H T 4*P"]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        zeros = torch.zeros_like(raw[:, :, 0, : self.head_dim])
        return zeros, zeros, zeros, torch.full_like(zeros, -torch.inf)

    def _step(
        self, raw: Float[Tensor, "B H 4*P"], y: Tensor, c: Tensor, n: Tensor, m: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        read = (y[..., None, :] @ self.recurrent).squeeze(-2)
        log_i, f, z, o = (raw + read).chunk(4, dim=-1)
        log_f = F.logsigmoid(f) + m
        m = torch.maximum(log_i, log_f).detach()
        keep, write = (log_f - m).exp(), (log_i - m).exp()
        c, n = keep * c + write * z.tanh(), keep * n + write
        return o.sigmoid() * c / n, c, n, m

    def state_size(self, seq_len: int) -> StateSize:
        """Count four numbers per channel, and the tail."""
        return StateSize.read_whole(4 * self.d_model + self.conv.tail_size())
