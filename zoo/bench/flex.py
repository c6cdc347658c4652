"""Compiled FlexAttention of torch, causal, whole or in a window.  On a CPU it has no backward pass."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def flex(q: Tensor, k: Tensor, v: Tensor, window: int | None = None) -> Tensor:
    """Return attention [B H T C] of q [B H T C] to k and v [B G S C]; the last query is at the last key."""
    mask = _mask(q.shape[2], k.shape[2], window, str(q.device))
    return _compiled(flex_attention)(q, k, v, block_mask=mask, enable_gqa=q.shape[1] != k.shape[1])


@cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function)


@cache
def _mask(length: int, keys: int, window: int | None, device: str) -> Any:
    """Return the block mask; it is compiled, because otherwise it would be built from T x S tensors."""
    before = keys - length

    def visible(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        del b, h
        age = i + before - j
        return (age >= 0) & (age < (keys if window is None else window))

    return _compiled(create_block_mask)(visible, None, None, length, keys, device=device)
