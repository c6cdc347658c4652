"""What linear attention puts in place of the exponential: weights are phi(q) . phi(k).

A map is built from the channels it takes, `map(feature_dim)`; a configuration names the class with its other
settings and `_partial_: true`.  To add one: a class here and a yaml.

C channels in, F features out, T time; any leading dimensions.
"""

import math
from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.checks import at_least
from zoo.kernels.linear_attention import taylor_attention
from zoo.kernels.linear_attention.taylor import taylor_weights

FLOOR = 1e-6  # of Relu's features: where all are dead a weight is small, not zero


class FeatureMap(nn.Module, ABC):
    """phi of queries and keys alike.  `offset` is the position of the first token, for maps that use it."""

    def __init__(self, feature_dim: int) -> None:
        super().__init__()
        at_least("feature_dim", feature_dim, 1)
        self.feature_dim = feature_dim

    @property
    def expanded_dim(self) -> int:
        """F."""
        return self.feature_dim

    @abstractmethod
    def forward(self, x: Float[Tensor, "... T C"], offset: int = 0) -> Float[Tensor, "... T F"]: ...

    def weights(
        self, q: Float[Tensor, "... T C"], k: Float[Tensor, "... T C"], offset: int = 0
    ) -> Float[Tensor, "... T T"]:
        """phi(q_i) . phi(k_j) for j <= i, zero elsewhere.  Override where that needs no features."""
        return (self(q, offset) @ self(k, offset).mT).tril()

    def attend(
        self,
        q: Float[Tensor, "... T C"],
        k: Float[Tensor, "... T C"],
        v: Float[Tensor, "... T V"],
        eps: float | None,
    ) -> Float[Tensor, "... T V"]:
        """A short sequence from its start, through the matrix of weights; eps None: no denominator."""
        weights = self.weights(q, k)
        y = weights @ v
        return y if eps is None else y / (weights.sum(-1, keepdim=True) + eps)


class Taylor2(FeatureMap):
    """phi(q) . phi(k) = 1 + u + u^2/2 with u = q . k / sqrt C: exp to second order (Based, arXiv 2402.18668).

    phi(x) = [1, x_i / C^(1/4), x_i^2 / sqrt(2 C), x_i x_j / sqrt C for i < j]: each product once, so
    F = 1 + C + C (C + 1) / 2.  The authors' code stores both x_i x_j and x_j x_i; the weights are the same.
    A weight is at least 1/2, so the denominator needs no care.
    """

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
    ) -> Float[Tensor, "... T V"]:
        return super().attend(q, k, v, eps) if eps is None else taylor_attention(q, k, v, eps)


class Identity(FeatureMap):
    """phi(x) = x.  Weights have both signs: a denominator can vanish, so leave it out."""

    def forward(self, x: Float[Tensor, "... T C"], offset: int = 0) -> Float[Tensor, "... T F"]:
        del offset
        return x


class Relu(FeatureMap):
    """phi(x) = max(x, 1e-6)."""

    def forward(self, x: Float[Tensor, "... T C"], offset: int = 0) -> Float[Tensor, "... T F"]:
        del offset
        return x.clamp(min=FLOOR)


class PosElu(FeatureMap):
    """phi(x) = elu(x) + 1 (Katharopoulos et al. 2020, arXiv 2006.16236)."""

    def forward(self, x: Float[Tensor, "... T C"], offset: int = 0) -> Float[Tensor, "... T F"]:
        del offset
        return F.elu(x) + 1


class Square(FeatureMap):
    """phi(x) = x^2, channel by channel."""

    def forward(self, x: Float[Tensor, "... T C"], offset: int = 0) -> Float[Tensor, "... T F"]:
        del offset
        return x.square()


class CosFormer(FeatureMap):
    """Weights relu(q_i) . relu(k_j) cos(pi (i - j) / (2 max_len))  (Qin et al. 2022, arXiv 2202.08791).

    phi(x_t) = relu(x_t) * [sin, cos](pi t / (2 max_len)), t = 1, 2, ...: F = 2 C.  max_len is fixed, where
    the authors' code takes the length at hand: a prefix would then have other weights than the whole.
    """

    def __init__(self, feature_dim: int, max_len: int) -> None:
        super().__init__(feature_dim)
        at_least("max_len", max_len, 1)
        self.max_len = max_len

    @property
    def expanded_dim(self) -> int:
        return 2 * self.feature_dim

    def forward(self, x: Float[Tensor, "... T C"], offset: int = 0) -> Float[Tensor, "... T F"]:
        last = offset + x.shape[-2]
        if last > self.max_len:
            raise ValueError(f"max_len (={self.max_len}) must be at least the sequence length (={last}).")
        t = torch.arange(offset + 1, last + 1, device=x.device, dtype=x.dtype)
        angle = (math.pi / (2 * self.max_len) * t)[:, None]
        positive = x.relu()
        return torch.cat([positive * angle.sin(), positive * angle.cos()], dim=-1)


class Performer(FeatureMap):
    """FAVOR+ (Choromanski et al. 2021, arXiv 2009.14794): an unbiased estimate of exp(q . k / sqrt C).

    phi(x) = exp(w_r . x' - |x'|^2 / 2) / sqrt(num_features), x' = x / C^(1/4).  The rows w_r are orthogonal
    in blocks of C and as long as Gaussian vectors are; they are drawn once, from `seed`, and never learned.
    No maximum over the sequence is subtracted, as the authors do: it would look ahead, and exponents are
    bounded by |w_r|^2 / 2 without it.
    """

    projection: Float[Tensor, "C F"]

    def __init__(self, feature_dim: int, num_features: int, seed: int = 0) -> None:
        super().__init__(feature_dim)
        at_least("num_features", num_features, 1)
        self.num_features = num_features
        self.register_buffer(
            "projection", _orthogonal_gaussian(num_features, feature_dim, seed).T.contiguous()
        )

    @property
    def expanded_dim(self) -> int:
        return self.num_features

    def forward(self, x: Float[Tensor, "... T C"], offset: int = 0) -> Float[Tensor, "... T F"]:
        del offset
        x = x / self.feature_dim**0.25
        exponents = x @ self.projection - x.square().sum(-1, keepdim=True) / 2
        return exponents.exp() / self.num_features**0.5


def _orthogonal_gaussian(rows: int, dim: int, seed: int) -> Float[Tensor, "rows dim"]:
    rng = torch.Generator().manual_seed(seed)
    blocks = torch.randn(-(-rows // dim), dim, dim, dtype=torch.float64, generator=rng)
    q, r = torch.linalg.qr(blocks)
    q = q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None]  # without it Q is not uniform, and FAVOR+ is biased
    directions = q.flatten(0, 1)[:rows]
    lengths = torch.randn(rows, dim, dtype=torch.float64, generator=rng).norm(dim=-1, keepdim=True)
    return (directions * lengths).to(torch.get_default_dtype())
