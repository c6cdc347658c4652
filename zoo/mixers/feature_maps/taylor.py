"""Based's map follows the exponential to second order.

C channels in, F features out, T time; any leading dimensions.
"""

from jaxtyping import Float
from torch import Tensor

from zoo.kernels.common.precision import wide
from zoo.kernels.taylor_attention import taylor_attention, taylor_weights
from zoo.kernels.taylor_scan import num_features, pair_index, taylor_features, taylor_scan
from zoo.mixers.feature_maps.base import FeatureMap


class Taylor2(FeatureMap):
    """Approximate exp(q . k / sqrt C) by its Taylor series to second order (Based, arXiv 2402.18668):
    phi(q) . phi(k) = 1 + u + u^2/2 with u = q . k / sqrt C.

    phi(x) = [1, x_i / C^(1/4), x_i^2 / sqrt(2 C), x_i x_j / sqrt C for i < j]: each product once, so
    F = 1 + C + C (C + 1) / 2.  The authors' code stores both x_i x_j and x_j x_i; the weights are the same.
    A weight is at least 1/2, so the denominator needs no care.
    """

    halves = True
    pairs: Tensor

    def __init__(self, feature_dim: int) -> None:
        super().__init__(feature_dim)
        self.register_buffer("pairs", pair_index(feature_dim), persistent=False)

    @property
    def expanded_dim(self) -> int:
        """Return F: the constant, the channels and each product of two once."""
        return num_features(self.feature_dim)

    def forward(self, x: Float[Tensor, "... T C"], offset: int = 0) -> Float[Tensor, "... T F"]:
        """Return constant, linear and quadratic features."""
        return taylor_features(x, self.pairs)

    def weights(
        self, q: Float[Tensor, "... T C"], k: Float[Tensor, "... T C"], offset: int = 0
    ) -> Float[Tensor, "... T T"]:
        """Return 1 + u + u^2/2 for each pair of tokens, without making features."""
        return taylor_weights(q, k)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, eps: float | None, fade: Tensor | None = None
    ) -> Tensor:
        """Call Based's kernel where there is a denominator and nothing fades."""
        if eps is None or fade is not None:
            return super().attend(wide(q), wide(k), wide(v), eps, fade)
        return taylor_attention(q, k, v, eps)

    def scan(
        self, q: Tensor, k: Tensor, v: Tensor, eps: float | None,
        kv: Tensor | None = None, z: Tensor | None = None, offset: int = 0,
    ) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
        """Call Based's chunked kernel where there is a denominator."""
        if eps is None:
            return super().scan(wide(q), wide(k), wide(v), eps, kv, z, offset)
        return taylor_scan(q, k, v, eps, kv, z)
