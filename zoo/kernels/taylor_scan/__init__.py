"""`taylor_attention` as a recurrence with a state, for long sequences and for decoding."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.choice import op
from zoo.kernels.common.precision import wide
from zoo.kernels.taylor_scan.features import num_features, pair_index, taylor_features

OP = op(__name__, "reference", "chunked", others=("triton",), prepare=wide)


def taylor_scan(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B H T C"],
    v: Float[Tensor, "B H T V"],
    eps: float,
    kv: Float[Tensor, "B H F V"] | None = None,
    z: Float[Tensor, "B H F"] | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H F V"], Float[Tensor, "B H F"]]:
    """Return y_t = sum over j <= t of w_tj v_j / (sum of w_tj + eps), and the sums after the last token.

    w = 1 + u + u^2/2, u = q_t k_j / sqrt C.
    kv and z: the sums of phi(k) v^T and phi(k) over all earlier tokens (`features`), both or neither.  The
    sums returned are float32 at least.  q, k and v may be in half precision: torch takes them in float32,
    Triton as they are, with sums in float32.
    """
    usual = "reference" if q.shape[-2] == 1 else "chunked"
    return OP.run(usual, q, k, v, eps, kv, z)


__all__ = ["OP", "num_features", "pair_index", "taylor_features", "taylor_scan"]
