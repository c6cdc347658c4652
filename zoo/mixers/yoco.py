"""YOCO's cross-decoder has layers of attention that all read one cache, which the lowest of them writes.

Sun et al., "You Only Cache Once: Decoder-Decoder Architectures for Language Models" (arXiv 2405.05254),
Section 2.2.

B batch, T time, S tokens so far, D model width, H query heads, G key/value heads, C channels per head
(H * C == D).
"""

from typing import Any, Self

from zoo.kernels.attention import attention
from zoo.mixers.base import Linked, Links, Seq, Shared
from zoo.mixers.cache import State, append
from zoo.mixers.projections import AttentionHeads
from zoo.mixers.state import StateSize

KEYS, VALUES = "yoco_keys", "yoco_values"


Nothing = tuple[()]  # what a layer above the lowest keeps


class Yoco(AttentionHeads[State | Nothing], Shared[State | Nothing], Linked[State | Nothing]):
    """Attend to the keys and values of the lowest layer of this kind, the only ones that are kept:
    y_t = W_o softmax(q_t K^T / sqrt C) V, with K and V of the lowest such layer's input, for all of them.

    The lowest layer keeps keys and values of all tokens and leaves them to those above, which have a query
    and an output of their own and keep nothing.  The layers below it are the paper's self-decoder.  K and V
    come from the lowest layer's input after its block's norm; the paper has a separate norm for them.
    Settings as in `zoo.mixers.attention`; all layers of a model must have the same heads and positions.
    """

    share_group = "yoco"
    alibi = True
    reads = leaves = (KEYS, VALUES)

    def __init__(self, **heads: Any) -> None:
        super().__init__(**heads)
        self.lowest = True
        self.out_proj = self.last_projection()

    def share(self, first: Self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Read the cache of `first`, and keep no projection of keys and values.

        ValueError: the two layers have different settings.
        """
        self.qkv.check_same(first.qkv)
        self.lowest = False
        self.qkv.keep_queries_alone()

    def extend_linked(
        self, x: Seq, state: State | Nothing | None, read: Links
    ) -> tuple[Seq, State | Nothing, Links]:
        """Attend from the new tokens to all so far, with the keys and values of the lowest layer."""
        before = state if isinstance(state, State) else None
        if self.lowest:
            q, k, v = self.qkv(x, offset=0 if before is None else before.k.shape[2])
            if before is not None:
                k, v = append(before.k, k, dim=2), append(before.v, v, dim=2)
        else:
            k, v = read[KEYS], read[VALUES]
            q = self.qkv.queries(x, offset=k.shape[2] - x.shape[1])
        y = attention(q, k, v, slopes=self.qkv.slopes).transpose(1, 2).flatten(2)
        return self.out_proj(y), State(k, v) if self.lowest else (), {KEYS: k, VALUES: v}

    def state_size(self, seq_len: int) -> StateSize:
        """Count keys and values of all tokens once; every layer's step reads them."""
        cache = 2 * self.qkv.kv_dim * seq_len
        return StateSize(paper=None, resident=cache if self.lowest else 0, touched=cache)
