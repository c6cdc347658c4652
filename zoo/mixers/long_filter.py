"""Convolve causally inside a mixer, by up to max_len taps per channel, stored or made by a small network.

B batch, T time, S inputs kept, C channels.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from zoo.common.checks import at_least, one_of
from zoo.kernels.fft_conv import fft_conv


class LongFilter(nn.Module):
    """Convolve each channel causally with a filter of its own, and add a share of the present input:
    y_t = sum_{r < max_len} k[:, r] x_{t-r} + skip x_t.

    There is no finite recurrence: the past is every input so far, at most the last max_len - 1 of them.

    filter: explicit (max_len weights per channel, drawn from N(0, 1 / max_len)) or implicit (ImplicitFilter),
        which alone reads emb_dim and filter_dim.
    squash: explicit weights are shrunk towards zero by this much, and smaller ones are zero.
    """

    def __init__(
        self,
        channels: int,
        max_len: int,
        filter: str = "explicit",
        emb_dim: int = 5,
        filter_dim: int = 16,
        squash: float = 0.0,
    ) -> None:
        super().__init__()
        at_least("max_len", max_len, 2)
        one_of("filter", filter, ("implicit", "explicit"))
        at_least("squash", squash, 0.0)
        self.max_len, self.squash = max_len, squash
        explicit = filter == "explicit"
        self.taps = nn.Parameter(torch.randn(channels, max_len) / max_len**0.5) if explicit else None
        self.network = None if explicit else ImplicitFilter(channels, max_len, emb_dim, filter_dim)
        self.skip = nn.Parameter(torch.ones(channels))

    def forward(
        self, x: Float[Tensor, "B T C"], past: Float[Tensor, "B S C"] | None = None
    ) -> tuple[Float[Tensor, "B T C"], Float[Tensor, "B S C"]]:
        """Return the outputs and the past to go on from; None is the start of a sequence."""
        whole = x if past is None else torch.cat([past, x], dim=1)
        mixed = fft_conv(whole, self._filter(min(whole.shape[1], self.max_len)))
        y = torch.addcmul(mixed[:, whole.shape[1] - x.shape[1] :], x, self.skip)
        return y, whole[:, max(0, whole.shape[1] - self.max_len + 1) :]

    def _filter(self, length: int) -> Float[Tensor, "C T"]:
        if self.taps is None:
            return self.network(length)  # pyright: ignore[reportOptionalCall]
        taps = self.taps[:, :length]
        return F.softshrink(taps, self.squash) if self.squash else taps


class ImplicitFilter(nn.Module):
    """Compute the filter's taps from their place in time by a network with one hidden layer:
    k[:, t] = W2 relu(W1 z(t) + b1) + b2, z(t) = [t / (max_len - 1), cos and -sin of 2 pi b t / max_len].

    The bands b run from 1e-4 to (emb_dim - 1) / 2 - 1.  emb_dim = 3, zoology's value, has the first band
    alone: its cosine is 1 and its sine 0, so that the filter knows t and nothing else.  Hence at least 5.
    """

    features: Tensor

    def __init__(self, channels: int, max_len: int, emb_dim: int, filter_dim: int) -> None:
        super().__init__()
        at_least("emb_dim", emb_dim, 5)
        at_least("filter_dim", filter_dim, 1)
        if emb_dim % 2 == 0:
            raise ValueError(f"emb_dim (={emb_dim}) must be odd: one time, and a cosine and a sine a band.")
        bands = torch.linspace(1e-4, (emb_dim - 1) // 2 - 1, (emb_dim - 1) // 2, dtype=torch.float64)
        t = torch.arange(max_len, dtype=torch.float64)[:, None]
        angle = 2 * math.pi * t / max_len * bands
        features = torch.cat([t / (max_len - 1), angle.cos(), -angle.sin()], dim=1)
        self.register_buffer("features", features.to(torch.get_default_dtype()), persistent=False)
        self.inner = nn.Linear(emb_dim, filter_dim)
        self.outer = nn.Linear(filter_dim, channels)

    def forward(self, length: int) -> Float[Tensor, "C T"]:
        """Return the first `length` taps, which the network computes."""
        return self.outer(self.inner(self.features[:length]).relu()).T
