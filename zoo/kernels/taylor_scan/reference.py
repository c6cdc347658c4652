"""Define Taylor linear attention token after token, as a recurrence over packed features."""

from torch import Tensor

from zoo.kernels.linear_attention.reference import linear_attention_reference
from zoo.kernels.taylor_scan.features import pair_index, taylor_features


def taylor_scan_reference(
    q: Tensor, k: Tensor, v: Tensor, eps: float, kv: Tensor | None = None, z: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Apply linear attention with the map of Based (arXiv 2402.18668, Eq. 2): weights 1 + u + u^2/2."""
    pairs = pair_index(k.shape[-1], k.device)
    y, kv, z = linear_attention_reference(taylor_features(q, pairs), taylor_features(k, pairs), v, eps, kv, z)
    assert z is not None  # there is a denominator
    return y, kv, z
