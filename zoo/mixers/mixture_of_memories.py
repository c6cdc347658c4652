"""Mixture of memories keeps several Gated DeltaNets' matrices, of which a router gives each token a few.

Du et al. 2025, "MoM: Linear Sequence Modeling with Mixture-of-Memories" (arXiv 2502.13685).

B batch, T time, D model width, H heads, C channels of a query or key (H * C == D), V = expand_v * C channels
of a value, N memories, K taps of the convolution.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, multiple
from zoo.kernels.delta_rule import delta_rule
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.delta_heads import ConvolvedHeads, Forgetting, HeadsOutput, unit
from zoo.mixers.largest import largest
from zoo.mixers.state import StateSize


class State(NamedTuple):
    memory: Float[Tensor, "B N*H C V"]
    tail: Float[Tensor, "B K-1 H*(C+N*(C+V))"]


class MixtureOfMemories(Mixer[State]):
    """Write to and read from a few of several Gated DeltaNet memories, which a router chooses per token:
    y_t = sum over the chosen m of p_m S_m^T q_t / sqrt C; a chosen memory takes Gated DeltaNet's step with
    its own k, v, beta and decay, and all others stay as they are.

    p is the top_k largest of softmax(x W), divided by their sum; ties go to the lowest memory.  q, A and
    dt_bias are shared by all memories.
    Not as published: the convolution runs over all tokens, not over those routed to a memory.  Left out: the
    memory that every token uses, and the loss that balances the router.
    """

    def __init__(
        self, *, d_model: int, num_heads: int, num_memories: int, top_k: int, expand_v: int, kernel_size: int
    ) -> None:
        super().__init__()
        multiple("d_model", d_model, "num_heads", num_heads)
        at_least("expand_v", expand_v, 1)
        at_least("top_k", top_k, min(2, num_memories))  # the share of one is 1, and trains no router
        at_least("num_memories", num_memories, top_k)
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        self.num_memories, self.top_k, self.value_dim = num_memories, top_k, expand_v * self.head_dim
        widths = [self.head_dim, num_memories * self.head_dim, num_memories * self.value_dim]
        self.qkv = ConvolvedHeads(d_model, num_heads, widths, kernel_size)
        self.router = nn.Linear(d_model, num_memories, bias=False) if num_memories > 1 else None
        self.beta = nn.Linear(d_model, num_memories * num_heads, bias=False)
        self.forget = Forgetting(d_model, num_heads)
        self.forget.proj = nn.Linear(d_model, num_memories * num_heads, bias=False)
        self.output = HeadsOutput(d_model, num_heads, self.value_dim, gate=True)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Route the tokens, step in the chosen memories and read them; keep all, and the tail."""
        memory, tail = (None, None) if state is None else state
        (q, k, v), tail = self.qkv(x, tail)
        shares = self._shares(x)
        used = (shares > 0).to(q.dtype)[:, :, None]  # [B N 1 T]
        q, k = unit(q)[:, None].expand(-1, self.num_memories, -1, -1, -1), unit(self._apart(k))
        beta, decay = self._rates(x)
        parts = (q * self.head_dim**-0.5, k, self._apart(v), beta.sigmoid() * used, decay * used)
        q, k, v, beta, decay = (part.flatten(1, 2) for part in parts)
        y, memory = delta_rule(q, k, v, beta, decay, memory)
        y = (y.unflatten(1, (self.num_memories, -1)) * shares[:, :, None, :, None]).sum(1)
        return self.output(y, x), State(memory, tail)

    def _rates(self, x: Seq) -> tuple[Float[Tensor, "B N H T"], Float[Tensor, "B N H T"]]:
        """Return the logits of beta and the log decays of all memories."""
        raw = self.forget.proj(x).unflatten(-1, (self.num_memories, -1)) + self.forget.dt_bias
        decay = -self.forget.A_log.exp() * nn.functional.softplus(raw)
        beta = self.beta(x).unflatten(-1, (self.num_memories, -1))
        return beta.permute(0, 2, 3, 1), decay.permute(0, 2, 3, 1)

    def _shares(self, x: Seq) -> Float[Tensor, "B N T"]:
        """Return each memory's share in the output, zero where it is not chosen."""
        if self.router is None:
            return torch.ones_like(x[:, None, :, 0])
        wide = torch.promote_types(x.dtype, torch.float32)
        logits = self.router(x).to(wide)
        chosen = largest(logits, self.top_k)
        shares = logits.masked_fill(~chosen, -torch.inf).softmax(-1).clamp(min=torch.finfo(wide).tiny)
        return (shares * chosen).mT

    def _apart(self, x: Float[Tensor, "B H T N*C"]) -> Float[Tensor, "B N H T C"]:
        return x.unflatten(-1, (self.num_memories, -1)).permute(0, 3, 1, 2, 4)

    def state_size(self, seq_len: int) -> StateSize:
        """Count all memories and the tail; a step reads top_k memories."""
        memory, tail = self.num_heads * self.head_dim * self.value_dim, self.qkv.conv.tail_size()
        resident = self.num_memories * memory + tail
        return StateSize(paper=None, resident=resident, touched=self.top_k * memory + tail)
