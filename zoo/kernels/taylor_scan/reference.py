"""Taylor linear attention token after token: the recurrence over packed features."""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.linear_attention import linear_attention_reference
from zoo.kernels.taylor_scan.features import pair_index, taylor_features


def taylor_scan_reference(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B H T C"],
    v: Float[Tensor, "B H T V"],
    eps: float,
    kv: Float[Tensor, "B H F V"] | None = None,
    z: Float[Tensor, "B H F"] | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H F V"], Float[Tensor, "B H F"]]:
    """Linear attention with the map of Based (arXiv 2402.18668, Eq. 2): weights 1 + u + u^2/2."""
    pairs = pair_index(k.shape[-1], k.device)
    y, kv, z = linear_attention_reference(taylor_features(q, pairs), taylor_features(k, pairs), v, eps, kv, z)
    assert z is not None  # there is a denominator
    return y, kv, z
