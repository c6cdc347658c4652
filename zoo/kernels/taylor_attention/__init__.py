"""Based's linear attention: causal weights 1 + u + u^2/2, the second-order Taylor polynomial of exp(u)."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op
from zoo.kernels.common.precision import wide
from zoo.kernels.taylor_attention.fused import taylor_weights

OP = op(__name__, "reference", "fused", others=("triton",), prepare=wide)


def taylor_attention(
    q: Float[Tensor, "... T C"], k: Float[Tensor, "... T C"], v: Float[Tensor, "... T V"], eps: float
) -> Float[Tensor, "... T V"]:
    """Return causal attention with Taylor weights, y_t = sum over j <= t of w_tj v_j / (sum of w_tj + eps).

    w = 1 + u + u^2/2, u = q_t k_j / sqrt C.
    Inputs may be in half precision: torch takes them in float32, Triton as they are, with sums in float32.
    """
    return OP.run("fused", q, k, v, eps)


__all__ = ["OP", "taylor_attention", "taylor_weights"]
