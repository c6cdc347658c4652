"""Build mixers by name, in float64 and always the same, and tokens for them."""

import torch
from torch import Tensor

from zoo import mixers
from zoo.mixers.base import Mixer
from zoo.mixers.named import stems
from zoo.mixers.state import StateSize, total

LINEAR = (  # of each feature map one
    *("Based", "LinearIdentity", "LinearReLU", "LinearAttention", "LinearSquare", "CosFormer", "Performer"),
    *("Hedgehog", "AllPoly", "DPFP", "ReBased"),
)
NAMES = {stem: name for name, stem in stems().items()}


def tokens(length: int = 37, batch: int = 2, width: int = 16, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, width, dtype=torch.float64, generator=rng)


X = tokens(30)


def built(name: str, d_model: int = 16, **settings: object) -> Mixer:
    """Build a mixer by its name in zoo.mixers or the stem of its yaml."""
    torch.manual_seed(0)
    return getattr(mixers, NAMES.get(name, name))(d_model=d_model, **settings).double()


def two_layers(name: str, d_model: int, seq_len: int, **settings: object) -> StateSize:
    return total(built(name, d_model, **settings).state_size(seq_len) for _ in range(2))
