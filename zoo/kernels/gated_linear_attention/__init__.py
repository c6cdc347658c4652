"""Linear attention that forgets: each channel of the keys, or each head, decays at a rate of its own."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import Op
from zoo.kernels.gated_linear_attention.chunked import gated_linear_attention_chunked
from zoo.kernels.gated_linear_attention.reference import gated_linear_attention_reference
from zoo.kernels.precision import wide

OP = Op(
    "gated_linear_attention",
    {"reference": gated_linear_attention_reference, "chunked": gated_linear_attention_chunked},
    others=("triton", "fla"),
    prepare=wide,
)


def gated_linear_attention(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    log_decay: Float[Tensor, "B H T"] | Float[Tensor, "B H T K"],
    state: Float[Tensor, "B H K V"] | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H K V"]]:
    """S_t = diag(exp(log_decay_t)) S_{t-1} + k_t v_t^T,  y_t = q_t^T S_t.  Returns y and the last S.

    log_decay <= 0: one a head and token, or one a key channel too.  state: S before the first token; None:
    zeros.  Queries are not scaled.  Inputs may be in half precision, one or all: torch takes them in float32,
    kernels multiply in the narrowest dtype of q, k and v, with sums in float32, and return y in it.
    """
    usual = "reference" if q.shape[-2] == 1 else "chunked"
    return OP.run(usual, q, k, v, log_decay, state)


__all__ = [
    "OP",
    "gated_linear_attention",
    "gated_linear_attention_chunked",
    "gated_linear_attention_reference",
]
