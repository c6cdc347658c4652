"""Softmax attention with forget gates: each token adds its log gate to the logits of all earlier keys."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op

OP = op(__name__, "reference", "chunked")


def forgetting_attention(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B G S C"],
    v: Float[Tensor, "B G S C"],
    log_gate: Float[Tensor, "B H T"],
    decay: Float[Tensor, "B H S-T"],
) -> tuple[Float[Tensor, "B H T C"], Float[Tensor, "B H S"]]:
    """Attend with forget gates; return y and each key's decay, the sum of log_gate over the tokens after it.

    The logit of key s <= t is q_t k_s / sqrt C + the sum of log_gate over the tokens after s, up to t (Lin
    et al. 2025, arXiv 2503.02130, Eq. 6).  decay: that sum up to the token before the first query, for each
    earlier key.  The returned decay is that sum up to the last query, for every key.
    """
    return OP.run("chunked", q, k, v, log_gate, decay)
