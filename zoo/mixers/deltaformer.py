"""DeltaFormer brings the delta rule to softmax attention, whose cache grows with the sequence.

Zhong et al. 2025, "Understanding Transformer from the Perspective of Associative Memory" (arXiv 2505.19488).

B batch, T time, S tokens so far, D model width, H heads, C channels per head (H C == D).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import one_of
from zoo.kernels.attention import attention
from zoo.mixers.base import Mixer, Seq
from zoo.mixers.cache import append
from zoo.mixers.projections import QueryKeyValue
from zoo.mixers.state import StateSize


class State(NamedTuple):
    k: Float[Tensor, "B H S C"]
    u: Float[Tensor, "B H S C"]


class DeltaFormer(Mixer[State]):
    """Subtract from each value a share of what earlier tokens predict of it, then attend by softmax:
    u_t = v_t - beta_t sum_{j<t} p_tj u_j, p_t = softmax_{j<t}(z_t k_j / sqrt C);  y attends to k and u.

    erase_by: z; key, as fla describes it, or query, as its code has it; we read fla, not the paper.
    beta = sigmoid(x W + b), one per head.  (fla leaves the sigmoid out: sums of u then grow without bound.)
    Other settings as in `zoo.mixers.attention`.
    """

    def __init__(
        self,
        *,
        d_model: int,
        num_heads: int,
        erase_by: str,
        position: str,
        rope_base: float,
        rope_fraction: float,
        bias: bool,
    ) -> None:
        super().__init__()
        one_of("erase_by", erase_by, ("key", "query"))
        self.erase_by = erase_by
        self.qkv = QueryKeyValue(d_model, num_heads, None, position, rope_base, rope_fraction, bias)
        self.beta = nn.Linear(d_model, num_heads)
        self.out_proj = nn.Linear(d_model, d_model, bias=bias)

    def extend(self, x: Seq, state: State | None = None) -> tuple[Seq, State]:
        """Solve for the new u, attend to all; keep every key and u."""
        q, k, v = self.qkv(x, offset=0 if state is None else state.k.shape[2])
        z = k if self.erase_by == "key" else q
        if state is not None:
            k = append(state.k, k, dim=2)
        wide = torch.promote_types(x.dtype, torch.float32)
        with torch.autocast(x.device.type, enabled=False):
            u = self._solve(z.to(wide), k.to(wide), v.to(wide), self.beta(x).sigmoid().mT.to(wide), state)
        u = u if state is None else append(state.u, u, dim=2)
        y = attention(q, k, u.to(q.dtype)).to(x.dtype)
        return self.out_proj(y.transpose(1, 2).flatten(2)), State(k, u)

    def _solve(
        self, z: Tensor, k: Tensor, v: Tensor, beta: Float[Tensor, "B H T"], state: State | None
    ) -> Float[Tensor, "B H T C"]:
        length, total = z.shape[2], k.shape[2]
        earlier = torch.ones(length, total, dtype=torch.bool, device=z.device).tril(total - length - 1)
        logits = (z @ k.mT * z.shape[-1] ** -0.5).masked_fill(~earlier, torch.finfo(z.dtype).min)
        shares = logits.softmax(-1) * earlier * beta[..., None]  # the first token's row is 0
        past, inside = shares.split([total - length, length], dim=-1)
        if state is not None:
            v = v - past @ state.u.to(v.dtype)
        eye = torch.eye(length, dtype=v.dtype, device=v.device)
        return torch.linalg.solve_triangular(eye + inside, v, upper=False, unitriangular=True)

    def state_size(self, seq_len: int) -> StateSize:
        """Count a key and a u of each token."""
        return StateSize.read_whole(2 * self.qkv.kv_dim * seq_len)
