"""Each of these maps is one formula, without anything learned or drawn.

C channels in, F features out, T time; any leading dimensions.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from zoo.common.checks import at_least, covers
from zoo.mixers.feature_maps.base import FeatureMap

FLOOR = 1e-6  # least output of relu: where all channels are negative, the weights are small, not zero


class Identity(FeatureMap):
    """Take the channels themselves for features: phi(x) = x.
    Weights have both signs: a denominator can vanish, so leave it out.
    """

    def forward(self, x: Float[Tensor, "... T C"], offset: int = 0) -> Float[Tensor, "... T F"]:
        """Return x itself."""
        return x


class Relu(FeatureMap):
    """Keep the positive part of each channel, with a floor: phi(x) = max(x, 1e-6)."""

    def forward(self, x: Float[Tensor, "... T C"], offset: int = 0) -> Float[Tensor, "... T F"]:
        """Return the positive part, with a floor."""
        return x.clamp(min=FLOOR)


class PosElu(FeatureMap):
    """Make every channel positive: phi(x) = elu(x) + 1 (Katharopoulos et al. 2020, arXiv 2006.16236)."""

    def forward(self, x: Float[Tensor, "... T C"], offset: int = 0) -> Float[Tensor, "... T F"]:
        """Return elu(x) + 1, which is positive everywhere."""
        return F.elu(x) + 1


class Square(FeatureMap):
    """Square every channel: phi(x) = x^2."""

    def forward(self, x: Float[Tensor, "... T C"], offset: int = 0) -> Float[Tensor, "... T F"]:
        """Return the square of each channel."""
        return x.square()


class CosFormer(FeatureMap):
    """Multiply relu features by a cosine that falls with distance (Qin et al. 2022, arXiv 2202.08791):
    weights relu(q_i) . relu(k_j) cos(pi (i - j) / (2 max_len)).

    phi(x_t) = relu(x_t) * [sin, cos](pi t / (2 max_len)), t = 1, 2, ...: F = 2 C.  max_len is fixed.  The
    authors' code takes the input's length instead, which gives a prefix other weights than the whole.
    relu is max(x, 1e-6): with 0, a query of negative channels reads nothing and has no gradient, and training
    at learning rate 0.01 breaks down within 200 steps (2 % recall of 8 pairs on the demo's task, not 94 %).
    """

    def __init__(self, feature_dim: int, max_len: int) -> None:
        super().__init__(feature_dim)
        at_least("max_len", max_len, 1)
        self.max_len = max_len

    def check_length(self, seq_len: int) -> None:
        """Raise ValueError for a sequence beyond max_len, where the cosine would turn negative."""
        covers("max_len", self.max_len, seq_len)

    @property
    def expanded_dim(self) -> int:
        """Return F: a sine and a cosine for each channel."""
        return 2 * self.feature_dim

    def forward(self, x: Float[Tensor, "... T C"], offset: int = 0) -> Float[Tensor, "... T F"]:
        """Return the positive part times sine and cosine of each token's position."""
        last = offset + x.shape[-2]
        self.check_length(last)
        t = torch.arange(offset + 1, last + 1, device=x.device, dtype=x.dtype)
        angle = (math.pi / (2 * self.max_len) * t)[:, None]
        positive = x.clamp(min=FLOOR)
        return torch.cat([positive * angle.sin(), positive * angle.cos()], dim=-1)


class DPFP(FeatureMap):
    """Multiply positive and negative parts of channels with each other, with nothing learned.

    This is deterministic parameter-free projection (Schlag et al. 2021, arXiv 2102.11174, Section 5.3).
    With r = [relu(x), relu(-x)] of 2 C channels, phi(x) holds r_i r_{i-j mod 2C} for every i and j = 1 .. nu:
    F = 2 C nu features, none negative.  (fla once had [relu(x), -relu(x)], which never sees a negative
    channel.)
    """

    def __init__(self, feature_dim: int, nu: int) -> None:
        super().__init__(feature_dim)
        at_least("nu", nu, 1)
        if nu >= 2 * feature_dim:
            raise ValueError(f"nu (={nu}) must be below 2 * feature_dim (={2 * feature_dim}).")
        self.nu = nu

    @property
    def expanded_dim(self) -> int:
        """Return F: nu products for each of the 2 C channels of both halves."""
        return 2 * self.feature_dim * self.nu

    def forward(self, x: Float[Tensor, "... T C"], offset: int = 0) -> Float[Tensor, "... T F"]:
        """Return the products of the halves with themselves, rolled by 1 .. nu channels."""
        halves = torch.cat([x.relu(), (-x).relu()], dim=-1)
        return torch.cat([halves * halves.roll(j, -1) for j in range(1, self.nu + 1)], dim=-1)
