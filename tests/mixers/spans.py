"""A small SE-Attn and inputs for its tests."""

from typing import Any

import pytest
import torch
from torch import Tensor

from zoo.mixers import SEAttn
from zoo.mixers.base import Mixer

D, LENGTH = 16, 37
CAUSAL = ("token", "first", "prefix", "prev", "random", "none")
SELECTIONS = (*CAUSAL, "chunk")
SHAPES = {
    "one head": {},
    "shared": {"num_heads": 2, "position": "rope", "bias": True},
    "gqa": {"num_heads": 4, "num_kv_heads": 2, "retrieval": "per_group"},
}
each_selection = pytest.mark.parametrize("selection", SELECTIONS)
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def make(selection: str = "token", chunk_size: Any = 8, **changes: Any) -> Mixer:
    torch.manual_seed(1)
    settings = {"num_heads": 1, "block_size": 4, "top_k": 2} | changes
    return SEAttn(d_model=D, selection=selection, chunk_size=chunk_size, **settings).double()


def tokens(length: int = LENGTH, batch: int = 2, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(batch, length, D, dtype=torch.float64, generator=rng)
