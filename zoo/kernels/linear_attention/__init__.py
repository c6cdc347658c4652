"""Linear attention: weights are products of features, so a sum of fixed size represents the past."""

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
    """Compute linear attention from features; return y, the last S and the last z:
    y_t = phi(q_t) S_t / (phi(q_t) z_t + eps), S_t = S_{t-1} + phi(k_t) v_t^T, z_t = z_{t-1} + phi(k_t).

    eps: None leaves the denominator and z out.  kv, z: S and z before the first token; None: zeros.
    In half precision, torch computes in float32, fla in the narrowest of their dtypes, with sums in float32.
    """
    usual = "reference" if phi_q.shape[-2] == 1 else "chunked"
    return OP.run(usual, phi_q, phi_k, v, eps, kv, z)
