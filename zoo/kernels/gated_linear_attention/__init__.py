"""Gated linear attention: each key channel, or each head, decays at a rate set by the token."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op
from zoo.kernels.common.precision import wide
from zoo.kernels.gated_linear_attention import native

OP = op(__name__, "reference", "native", "chunked", others=("fla",), prepare=wide)
FEW = 32  # key channels up to which C's steps beat torch's chunks for one decay a head; else they always do


def gated_linear_attention(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    log_decay: Float[Tensor, "B H T"] | Float[Tensor, "B H T K"],
    state: Float[Tensor, "B H K V"] | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H K V"]]:
    """Decay a matrix state, add k v^T and read it by the query, token after token; return y and the last S:
    S_t = diag(exp(log_decay_t)) S_{t-1} + k_t v_t^T,  y_t = q_t^T S_t.
    log_decay <= 0: one for each token and head, or key channel too.  state: S before the first token; None:
    zeros.  Queries are not scaled.  Some or all inputs may be in half precision: torch computes in float32;
    kernels multiply in the narrowest dtype of q, k and v, with sums in float32, and return y in that dtype.
    """
    inputs = (q, k, v, log_decay, state)
    if q.shape[-2] == 1:
        return OP.run("reference", *inputs)
    in_steps = (log_decay.ndim == k.ndim or k.shape[-1] <= FEW) and not native.unfit(*inputs)
    return OP.run("native" if in_steps else "chunked", *inputs)
