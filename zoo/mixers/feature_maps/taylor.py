"""The Taylor map of Based.

C channels in, F features out, T time; any leading dimensions.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.precision import wide
from zoo.kernels.taylor_attention import taylor_attention, taylor_weights
from zoo.mixers.feature_maps.base import FeatureMap


class Taylor2(FeatureMap):
    """phi(q) . phi(k) = 1 + u + u^2/2 with u = q . k / sqrt C: exp to second order (Based, arXiv 2402.18668).

    phi(x) = [1, x_i / C^(1/4), x_i^2 / sqrt(2 C), x_i x_j / sqrt C for i < j]: each product once, so
    F = 1 + C + C (C + 1) / 2.  The authors' code stores both x_i x_j and x_j x_i; the weights are the same.
    A weight is at least 1/2, so the denominator needs no care.
    """

    halves = True
    pairs: Tensor

    def __init__(self, feature_dim: int) -> None:
        super().__init__(feature_dim)
        i, j = torch.triu_indices(feature_dim, feature_dim, offset=1)
        self.register_buffer("pairs", i * feature_dim + j, persistent=False)

    @property
    def expanded_dim(self) -> int:
        return 1 + self.feature_dim + self.feature_dim * (self.feature_dim + 1) // 2

    def forward(self, x: Float[Tensor, "... T C"], offset: int = 0) -> Float[Tensor, "... T F"]:
        del offset
        x = x / self.feature_dim**0.25
        products = (x[..., :, None] * x[..., None, :]).flatten(-2).index_select(-1, self.pairs)
        return torch.cat([torch.ones_like(x[..., :1]), x, x.square() * 0.5**0.5, products], dim=-1)

    def weights(
        self, q: Float[Tensor, "... T C"], k: Float[Tensor, "... T C"], offset: int = 0
    ) -> Float[Tensor, "... T T"]:
        del offset
        return taylor_weights(q, k)

    def attend(
        self,
        q: Float[Tensor, "... T C"],
        k: Float[Tensor, "... T C"],
        v: Float[Tensor, "... T V"],
        eps: float | None,
        fade: Float[Tensor, "... T T"] | None = None,
    ) -> Float[Tensor, "... T V"]:
        if eps is None or fade is not None:
            return super().attend(wide(q), wide(k), wide(v), eps, fade)
        return taylor_attention(q, k, v, eps)
