"""Feature maps let linear attention put phi(q) . phi(k) in place of the exponential.

A map is built from the channels it takes, `map(feature_dim)`; a configuration names the class with its other
settings and `_partial_: true`.  To add one: a class in this folder, a line in its `__init__` and a yaml.

C channels in, F features out, T time; any leading dimensions.
"""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least
from zoo.common.part import Part
from zoo.kernels.linear_attention import linear_attention


class FeatureMap(nn.Module, Part, ABC):
    """Map queries and keys to features, whose products are the weights of linear attention:
    phi(x) = map(map.learned(x)): first the learned part, a function of each token's channels, if there is
    one, then a fixed function.  Queries and keys may have different learned parts, never different functions.

    One map serves all heads, as in zoology and fla.  `offset` is the position of the first token, for maps
    that use it.
    halves: `attend` and `scan` accept half precision; otherwise queries, keys and values are converted to
    float32 at least.
    """

    halves: bool = False

    def __init__(self, feature_dim: int) -> None:
        super().__init__()
        at_least("feature_dim", feature_dim, 1)
        self.feature_dim = feature_dim

    @property
    def expanded_dim(self) -> int:
        """Return F, the number of features."""
        return self.feature_dim

    def check_length(self, seq_len: int) -> None:
        """Raise ValueError if the map has too few positions for `seq_len`.  The default takes any number."""

    def learned(self, x: Float[Tensor, "... T C"]) -> Float[Tensor, "... T E"]:
        """Return what `forward`, `weights` and `attend` take as queries and keys; E is C for most."""
        return x

    @abstractmethod
    def forward(self, x: Float[Tensor, "... T E"], offset: int = 0) -> Float[Tensor, "... T F"]:
        """Return phi of what `learned` gave; offset: position of the first token."""

    def weights(
        self, q: Float[Tensor, "... T E"], k: Float[Tensor, "... T E"], offset: int = 0
    ) -> Float[Tensor, "... T T"]:
        """Return phi(q_i) . phi(k_j) for j <= i, zero elsewhere.  Override where that needs no features."""
        return (self(q, offset) @ self(k, offset).mT).tril()

    def attend(
        self,
        q: Float[Tensor, "... T E"],
        k: Float[Tensor, "... T E"],
        v: Float[Tensor, "... T V"],
        eps: float | None,
        fade: Float[Tensor, "... T T"] | None = None,
    ) -> Float[Tensor, "... T V"]:
        """Return the outputs of a short sequence from its start, through the matrix of weights.

        eps None: no denominator.  fade: factors on the weights, in the numerator alone.
        """
        weights = self.weights(q, k)
        y = (weights if fade is None else weights * fade) @ v
        return y if eps is None else y / (weights.sum(-1, keepdim=True) + eps)

    def scan(
        self,
        q: Float[Tensor, "B H T E"],
        k: Float[Tensor, "B H T E"],
        v: Float[Tensor, "B H T V"],
        eps: float | None,
        kv: Float[Tensor, "B H F V"] | None = None,
        z: Float[Tensor, "B H F"] | None = None,
        offset: int = 0,
    ) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H F V"], Float[Tensor, "B H F"] | None]:
        """Return the outputs after the sums kv of phi(k) v^T and z of phi(k), and the updated sums.

        kv, z None: the start.  eps None: no denominator, and no z.
        """
        return linear_attention(self(q, offset), self(k, offset), v, eps, kv, z)
