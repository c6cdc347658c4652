"""A small SE-Attn for its tests."""

from typing import Any

import pytest

from tests.mixers.built import built
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
    settings = {"num_heads": 1, "block_size": 4, "top_k": 2} | changes
    return built("SEAttn", D, selection=selection, chunk_size=chunk_size, **settings)
