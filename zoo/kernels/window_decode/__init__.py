"""One step of decoding with softmax attention over a window of kept keys: Based's Algorithm 3."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.attention import attention_reference, attention_sdpa
from zoo.kernels.choice import Op

OP = Op("window_decode", {"reference": attention_reference, "sdpa": attention_sdpa}, others=("triton",))


def window_decode(
    q: Float[Tensor, "B H 1 C"],
    k: Float[Tensor, "B G S C"],
    v: Float[Tensor, "B G S C"],
    window: int | None = None,
    slopes: Float[Tensor, "H"] | None = None,
) -> Float[Tensor, "B H 1 C"]:
    """`zoo.kernels.attention` of the newest token alone: the last of S, over the last `window` keys.

    An op of its own, so that what suits one query need not suit many (arXiv 2402.18668, Algorithm 3).
    """
    return OP.run("sdpa", q, k, v, window, slopes)


__all__ = ["OP", "window_decode"]
