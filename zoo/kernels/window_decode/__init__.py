"""One step of decoding with softmax attention over a window, and the window after it: Based's Algorithm 3."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import Op
from zoo.kernels.window_decode.reference import (
    attend_and_keep,
    window_decode_reference,
    window_decode_sdpa,
)

OP = Op(
    "window_decode",
    {"reference": window_decode_reference, "sdpa": window_decode_sdpa},
    others=("triton",),
)


def window_decode(
    q: Float[Tensor, "B H 1 C"],
    k: Float[Tensor, "B G 1 C"],
    v: Float[Tensor, "B G 1 C"],
    past_k: Float[Tensor, "B G S C"] | None,
    past_v: Float[Tensor, "B G S C"] | None,
    window: int,
    slopes: Float[Tensor, "H"] | None = None,
) -> tuple[Float[Tensor, "B H 1 C"], Float[Tensor, "B G N C"], Float[Tensor, "B G N C"]]:
    """Attend from one token to those kept before it and to itself, as `zoo.kernels.attention` does.

    past_k, past_v: of the last S <= window - 1 tokens, both or neither (the start).  They are values and stay
    as they are; returned are y and those to keep from here on, of the last N = min(S + 1, window - 1) tokens.
    An op of its own, so that what suits one query need not suit many (arXiv 2402.18668, Algorithm 3; there
    the window is a ring that is written in place, here the next state is another one).
    """
    return OP.run("sdpa", q, k, v, past_k, past_v, window, slopes)


__all__ = ["OP", "attend_and_keep", "window_decode", "window_decode_reference", "window_decode_sdpa"]
