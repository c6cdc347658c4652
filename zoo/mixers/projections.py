"""Make the queries, keys and values of softmax attention, in heads and at their positions.

B batch, T time, D model width, H query heads, G key/value heads, C channels per head (H * C == D).
"""

from typing import Self

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import multiple
from zoo.mixers.base import Mixer, Seq, State
from zoo.mixers.positions import alibi_slopes, check_position, rotate


class QueryKeyValue(nn.Module):
    """Project tokens to queries, keys and values in heads, and turn queries and keys to their positions.

    num_kv_heads: G; each key/value head serves H / G query heads (None: one).
    position: none | rope | alibi.  Keys come out turned to their absolute position, ready to be kept.
    alibi: true if the mixer reads `slopes`, so that position may be alibi.
    slopes: [H] with alibi, for `zoo.kernels.attention`, else None.
    """

    slopes: Float[Tensor, "H"] | None
    rope_scale: float = 1.0  # positions are divided by it, see `stretch`

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        position: str = "none",
        rope_base: float = 10000.0,
        rope_fraction: float = 1.0,
        bias: bool = False,
        alibi: bool = False,
    ) -> None:
        super().__init__()
        multiple("d_model", d_model, "num_heads", num_heads)
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        multiple("num_heads", num_heads, "num_kv_heads", self.num_kv_heads)
        check_position(position, self.head_dim, rope_fraction, rope_base, alibi)
        self.position, self.rope_base, self.rope_fraction = position, rope_base, rope_fraction
        self.register_buffer(
            "slopes", alibi_slopes(num_heads) if position == "alibi" else None, persistent=False
        )
        self.proj = nn.Linear(d_model, d_model + 2 * self.kv_dim, bias=bias)

    @property
    def kv_dim(self) -> int:
        """The scalars of one token's keys, G * C."""
        return self.num_kv_heads * self.head_dim

    def forward(
        self, x: Seq, offset: int = 0
    ) -> tuple[Float[Tensor, "B H T C"], Float[Tensor, "B G T C"], Float[Tensor, "B G T C"]]:
        """Return q, k, v of tokens that stand at `offset`, `offset` + 1, ..."""
        parts = self.proj(x).split([self.num_heads * self.head_dim, self.kv_dim, self.kv_dim], dim=-1)
        q, k, v = (part.unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for part in parts)
        if self.position == "rope":
            q, k = self.turned(q, offset), self.turned(k, offset)
        return q, k, v

    def check_same(self, first: Self) -> None:
        """Raise ValueError if the settings differ from those of `first`, whose weights the layer shares."""
        names = ("num_heads", "num_kv_heads", "head_dim", "position", "rope_base", "rope_fraction")
        mine, others = (
            {"bias": each.proj.bias is not None} | {name: getattr(each, name) for name in names}
            for each in (self, first)
        )
        if mine != others:
            raise ValueError(
                f"layers that share weights must have the same settings: {mine} is not the first's {others}; "
                f"change them in all of these layers."
            )

    def keep_queries_alone(self) -> None:
        """Drop the projection of keys and values; after that only `queries` can be computed."""
        rows, proj = self.num_heads * self.head_dim, self.proj
        proj.out_features = rows
        proj.weight = nn.Parameter(proj.weight[:rows].detach().clone())
        if proj.bias is not None:
            proj.bias = nn.Parameter(proj.bias[:rows].detach().clone())

    def queries(self, x: Seq, offset: int) -> Float[Tensor, "B H T C"]:
        """Return the queries of tokens that stand at `offset`, ..., after `keep_queries_alone`."""
        q = self.proj(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
        return self.turned(q, offset) if self.position == "rope" else q

    def turned(self, x: Float[Tensor, "B H T C"], offset: int) -> Float[Tensor, "B H T C"]:
        """Turn queries or keys to the positions `offset`, `offset` + 1, ..."""
        return rotate(x, offset, self.rope_base, self.rope_fraction, self.rope_scale)

    def unplaced_query(self, x: Float[Tensor, "D"]) -> Float[Tensor, "H C"]:
        """Return the query of one vector, at no position."""
        rows, bias = self.num_heads * self.head_dim, self.proj.bias
        query = F.linear(x, self.proj.weight[:rows], None if bias is None else bias[:rows])
        return query.unflatten(0, (self.num_heads, self.head_dim))

    def turned_back(self, x: Float[Tensor, "B H T C"], offset: int) -> Float[Tensor, "B H T C"]:
        """Turn queries or keys back from the positions `offset`, `offset` + 1, ..."""
        if self.position != "rope":
            return x
        last = offset + x.shape[2] - 1
        return self.turned(x.flip(2), -last).flip(2)


class AttentionHeads(Mixer[State]):
    """Give a mixer queries, keys and values by `qkv`, with the settings of QueryKeyValue.

    A subclass builds its `out_proj` by `last_projection`, itself, since weights are drawn in building order.
    """

    alibi: bool = False  # true: the mixer reads qkv.slopes
    widening: int = 1  # inputs, queries and all heads' outputs are this many times as wide as the model

    def __init__(
        self,
        *,
        d_model: int,
        num_heads: int,
        num_kv_heads: int | None,
        position: str,
        rope_base: float,
        rope_fraction: float,
        bias: bool,
    ) -> None:
        super().__init__()
        self.d_model, self.num_heads = d_model, num_heads
        heads = (num_heads, num_kv_heads, position, rope_base, rope_fraction, bias, self.alibi)
        self.qkv = QueryKeyValue(self.widening * d_model, *heads)

    def last_projection(self) -> nn.Linear:
        """Build the output projection of all heads."""
        return nn.Linear(self.d_model, self.d_model, bias=self.qkv.proj.bias is not None)


def stretch(model: nn.Module, scale: float) -> None:
    """Divide the positions of every rotary attention by `scale`: sequences `scale` times longer turn no
    further than those trained on (Chen et al. 2023, arXiv 2306.15595).  ValueError: no layer is rotary."""
    rotary = [m for m in model.modules() if isinstance(m, QueryKeyValue) and m.position == "rope"]
    if scale != 1 and not rotary:
        raise ValueError(
            f"adaptation.rope_scale (={scale}) needs attention with position=rope, and no layer has it: "
            "leave it 1."
        )
    for module in rotary:
        module.rope_scale = scale
