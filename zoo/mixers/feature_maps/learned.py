"""These maps have parameters, which queries and keys share or not, as the mixer's `tie_qk` says.

C channels in, F features out, T time; any leading dimensions.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least
from zoo.mixers.feature_maps.base import FeatureMap


class Hedgehog(FeatureMap):
    """Take for features the softmax of a learned projection, and that of its negative:
    phi(x) = [softmax(W x + b), softmax(-W x - b)], F = 2 C, with W = 1 and b = 0 at first.

    Zhang et al. 2024 (arXiv 2402.04347): exponentials of both signs, each half divided by its sum so
    that it cannot overflow.  (fla takes one softmax over both halves, of twice the values.)  A single channel
    would give no feature, since its softmax is always one.
    """

    def __init__(self, feature_dim: int) -> None:
        super().__init__(feature_dim)
        at_least("feature_dim", feature_dim, 2)
        self.proj = nn.Linear(feature_dim, feature_dim)
        nn.init.eye_(self.proj.weight)
        nn.init.zeros_(self.proj.bias)

    @property
    def expanded_dim(self) -> int:
        """Return F: a softmax of either sign."""
        return 2 * self.feature_dim

    def learned(self, x: Float[Tensor, "... T C"]) -> Float[Tensor, "... T C"]:
        """Return W x + b."""
        return self.proj(x)

    def forward(self, x: Float[Tensor, "... T C"], offset: int = 0) -> Float[Tensor, "... T F"]:
        """Return the softmax of x beside that of -x."""
        return torch.cat([x.softmax(-1), (-x).softmax(-1)], dim=-1)


class AllPoly(FeatureMap):
    """Learn a quadratic form of the channels for each feature (zoology; Based, arXiv 2402.18668):
    phi(x) = ((W1 x)^2 + W2 x^2) / sqrt 2.

    F = num_features.  Rows start from N(0, 1 / C); in the reference the model's own initialisation then
    writes N(0, 0.02^2) over them.  Weights have both signs: a denominator can vanish, so leave it out.
    """

    def __init__(self, feature_dim: int, num_features: int) -> None:
        super().__init__(feature_dim)
        at_least("num_features", num_features, 1)
        self.num_features = num_features
        self.squared = nn.Parameter(torch.randn(num_features, feature_dim) / feature_dim**0.5)
        self.squares = nn.Parameter(torch.randn(num_features, feature_dim) / feature_dim**0.5)

    @property
    def expanded_dim(self) -> int:
        """Return F, which is num_features."""
        return self.num_features

    def learned(self, x: Float[Tensor, "... T C"]) -> Float[Tensor, "... T F"]:
        """Return the quadratic forms, which are the features already."""
        return ((x @ self.squared.T).square() + x.square() @ self.squares.T) * 0.5**0.5

    def forward(self, x: Float[Tensor, "... T F"], offset: int = 0) -> Float[Tensor, "... T F"]:
        """Return the learned features as they are."""
        return x


class ReBased(FeatureMap):
    """Square the products of normalised queries and keys (Aksenov et al. 2024, arXiv 2402.10644):
    weights (u_q . u_k)^2 / C of u = gamma * layer_norm(x) + beta.

    phi(x) = [u_i^2 / sqrt C, u_i u_j sqrt(2 / C) for i < j], each product once: F = C (C + 1) / 2.  Unlike
    the Taylor map of Based it can give a key no weight at all; there is no constant and no linear feature.
    """

    pairs: Tensor
    EPS = 1e-5  # of the layer norm

    def __init__(self, feature_dim: int) -> None:
        super().__init__(feature_dim)
        self.gamma = nn.Parameter(torch.ones(feature_dim))
        self.beta = nn.Parameter(torch.zeros(feature_dim))
        i, j = torch.triu_indices(feature_dim, feature_dim, offset=1)
        self.register_buffer("pairs", i * feature_dim + j, persistent=False)

    @property
    def expanded_dim(self) -> int:
        """Return F: each product of two channels once."""
        return self.feature_dim * (self.feature_dim + 1) // 2

    def learned(self, x: Float[Tensor, "... T C"]) -> Float[Tensor, "... T C"]:
        """Return the layer norm of x, with the learned scale and shift."""
        return F.layer_norm(x, (self.feature_dim,), self.gamma, self.beta, self.EPS)

    def forward(self, x: Float[Tensor, "... T C"], offset: int = 0) -> Float[Tensor, "... T F"]:
        """Return squares and products of channels, scaled so that phi(q) . phi(k) = (u_q . u_k)^2 / C."""
        x = x / self.feature_dim**0.25
        products = (x[..., :, None] * x[..., None, :]).flatten(-2).index_select(-1, self.pairs)
        return torch.cat([x.square(), products * 2**0.5], dim=-1)

    def weights(
        self, q: Float[Tensor, "... T C"], k: Float[Tensor, "... T C"], offset: int = 0
    ) -> Float[Tensor, "... T T"]:
        """Return the squared products of queries and keys, without making features."""
        return ((q @ k.mT) / self.feature_dim**0.5).square().tril()
