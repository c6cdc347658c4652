"""mLSTM is xLSTM's matrix memory, with an exponential input gate and a maximum that keeps it in range.

Beck et al. 2024, "xLSTM: Extended Long Short-Term Memory" (arXiv 2405.04517), Section 2.3 and Figure 10, with
the initial values of the authors' code.

B batch, T time, D model width, E = expand * D inner width, H heads of P channels (E = H P), K taps.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple
from zoo.kernels.gated_linear_attention import gated_linear_attention
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.short_conv import ShortConv
from zoo.mixers.state import StateSize

FLOOR = 1e-6  # least denominator, where the paper's exp(-m) is smaller


class State(NamedTuple):
    C: Float[Tensor, "B H P P"]  # exp(-m) times the sum of the gated k v^T
    n: Float[Tensor, "B H P"]  # exp(-m) times the sum of the gated k
    m: Float[Tensor, "B H"]
    tail: Float[Tensor, "B K-1 E"]

    @property
    def selects(self) -> tuple[str, ...]:
        """Name n, which acts only where |n q| > 1: the small weights of a fresh model seldom reach that."""
        return ("n",)


class MLSTM(Mixer[State]):
    """Mix tokens by a matrix state per head, with an exponential input gate and a normaliser:
    C_t = f_t C_{t-1} + i_t k_t v_t^T, n_t = f_t n_{t-1} + i_t k_t, h_t = C_t^T q_t / max(|n_t q_t|, 1),
    with f the sigmoid and i the exp of one number per head, and keys divided by sqrt(P).

    C and n are kept times exp(-m), m_t = max(log f_t + m_{t-1}, log i_t); h does not depend on m.

    block_size: of the block-diagonal weights of q, k and v.  n_layers scales the initial output weights.
    """

    def __init__(
        self, *, d_model: int, num_heads: int, expand: int, kernel_size: int, block_size: int, n_layers: int
    ) -> None:
        super().__init__()
        for name, value in (("expand", expand), ("n_layers", n_layers)):
            at_least(name, value, 1)
        self.d_model, self.num_heads, self.d_inner = d_model, num_heads, expand * d_model
        self.n_layers = n_layers
        multiple("expand * d_model", self.d_inner, "num_heads", num_heads)
        multiple("expand * d_model", self.d_inner, "block_size", block_size)
        self.head_dim = self.d_inner // num_heads
        at_least("expand * d_model / num_heads", self.head_dim, 2)  # the norm of a single channel is 0
        self.in_proj = nn.Linear(d_model, 2 * self.d_inner, bias=False)
        self.conv = ShortConv(self.d_inner, kernel_size)
        self.qkv = nn.Parameter(torch.empty(3, self.d_inner // block_size, block_size, block_size))
        self.gates = nn.Linear(3 * self.d_inner, 2 * num_heads)
        self.norm_weight, self.skip = (nn.Parameter(torch.ones(self.d_inner)) for _ in range(2))
        self.out_proj = nn.Linear(self.d_inner, d_model, bias=False)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw as the authors do: small projections, forget gates from sigmoid(3) to sigmoid(6)."""
        for weight in (self.in_proj.weight, self.qkv):
            nn.init.normal_(weight, std=(2 / (5 * self.d_model)) ** 0.5)
        nn.init.normal_(self.out_proj.weight, std=2 / (self.n_layers * self.d_model**0.5))
        nn.init.zeros_(self.gates.weight)
        write, keep = self.gates.bias.chunk(2)
        nn.init.normal_(write, std=0.1)
        keep.copy_(torch.linspace(3, 6, self.num_heads))

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Run the cell over the new tokens; keep memory, normaliser, maximum and the tail."""
        u, gate = self.in_proj(x).chunk(2, dim=-1)
        mixed, tail = self.conv(u, None if state is None else state.tail)
        mixed = F.silu(mixed)
        to_q, to_k, to_v = self._block_diagonal()
        q, k, v = mixed @ to_q, mixed @ to_k, u @ to_v
        write, keep = self.gates(torch.cat([q, k, v], dim=-1)).mT.chunk(2, dim=1)
        with torch.autocast(x.device.type, enabled=False):
            wide = torch.promote_types(x.dtype, torch.float32)
            q, k, v = (s.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for s in (q, k, v))
            h, memory = self._cell(q, k.to(wide), v, write.to(wide), F.logsigmoid(keep.to(wide)), state)
            h = F.layer_norm(h, h.shape[-1:]).transpose(1, 2).flatten(2) * self.norm_weight
        y = (h.to(mixed.dtype) + self.skip * mixed) * F.silu(gate)
        return self.out_proj(y), State(*memory, tail)

    def _cell(
        self,
        q: Float[Tensor, "B H T P"],
        k: Float[Tensor, "B H T P"],
        v: Float[Tensor, "B H T P"],
        log_i: Float[Tensor, "B H T"],
        log_f: Float[Tensor, "B H T"],
        state: State | None,
    ) -> tuple[Float[Tensor, "B H T P"], tuple[Tensor, Tensor, Tensor]]:
        """Run the memory with n as one more column of C: the values' last channel is one."""
        start = torch.zeros_like(log_f[..., 0]) if state is None else state.m
        m = running_max(log_f, log_i, start)
        log_decay = log_f + torch.cat([start[..., None], m[..., :-1]], dim=-1) - m
        k = k * ((log_i - m).exp() * self.head_dim**-0.5)[..., None]
        kv = None if state is None else torch.cat([state.C, state.n[..., None]], dim=-1)
        y, kv = gated_linear_attention(
            q, k, torch.cat([v, torch.ones_like(v[..., :1])], dim=-1), log_decay, kv
        )
        y, least = y.to(kv.dtype), (-m).exp().clamp(min=FLOOR)[..., None]
        h = y[..., :-1] / torch.maximum(y[..., -1:].abs(), least)
        return h, (kv[..., :-1], kv[..., -1], m[..., -1])

    def _block_diagonal(self) -> Float[Tensor, "3 E E"]:
        """Write out the three weights: one large product is quicker than many small ones."""
        eye = torch.eye(self.qkv.shape[1], dtype=self.qkv.dtype, device=self.qkv.device)
        return torch.einsum("pgij,gh->pgihj", self.qkv, eye).flatten(3).flatten(1, 2)

    def state_size(self, seq_len: int) -> StateSize:
        """Count a matrix, a normaliser and a maximum per head, and the tail."""
        held = self.num_heads * (self.head_dim**2 + self.head_dim + 1) + self.conv.tail_size()
        return StateSize.read_whole(held)


@torch.no_grad()
def running_max(
    log_f: Float[Tensor, "B H T"], log_i: Float[Tensor, "B H T"], start: Float[Tensor, "B H"]
) -> Float[Tensor, "B H T"]:
    """Return m_t = max(log_f_t + m_{t-1}, log_i_t), by doubling; no gradient, as no output depends on m."""
    log_i = torch.cat([start[..., None], log_i], dim=-1)
    log_f = F.pad(log_f, (1, 0))
    reach = 1
    while reach < log_i.shape[-1]:
        earlier = F.pad(log_i[..., :-reach], (reach, 0), value=-torch.inf)
        log_i = torch.maximum(log_i, earlier + log_f)
        log_f = log_f + F.pad(log_f[..., :-reach], (reach, 0))
        reach *= 2
    return log_i[..., 1:]
