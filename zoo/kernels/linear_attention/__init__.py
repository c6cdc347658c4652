"""Attention whose weights are products of features, so that a sum of fixed size replaces the past."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op
from zoo.kernels.common.precision import wide

OP = op(__name__, "reference", "chunked", others=("fla",), prepare=wide)


def linear_attention(
    phi_q: Float[Tensor, "B H T F"],
    phi_k: Float[Tensor, "B H T F"],
    v: Float[Tensor, "B H T V"],
    eps: float | None,
    kv: Float[Tensor, "B H F V"] | None = None,
    z: Float[Tensor, "B H F"] | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H F V"], Float[Tensor, "B H F"] | None]:
    """y_t = phi(q_t) S_t / (phi(q_t) z_t + eps), S_t = S_{t-1} + phi(k_t) v_t^T, z_t = z_{t-1} + phi(k_t).

    eps: None leaves the denominator out.  kv, z: S and z before the first token; None: zeros.
    Returns y and the last S and z; z is None where eps is.  Inputs may be in half precision: torch computes
    in float32, fla in the narrowest of their dtypes, with sums in float32.
    """
    usual = "reference" if phi_q.shape[-2] == 1 else "chunked"
    return OP.run(usual, phi_q, phi_k, v, eps, kv, z)
