"""Causal softmax attention by torch's fused kernel; a narrow window is cut into bands, O(T window) in all.

The fused kernel has no batching rule on a CPU, so it is wrapped in an operator that has one: stacked members
become more sequences in the batch.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from zoo.kernels.attention.dense import attention_dense, dense_is_quicker
from zoo.kernels.common.folding import fold
from zoo.kernels.common.heads import per_query_head
from zoo.kernels.common.precision import autocast

SMALLEST_BAND = 16  # narrower bands cost more in calls than they save in products
BANDS_FROM = 128  # shorter sequences are quicker as one dense block


def attention_sdpa(
    q: Tensor, k: Tensor, v: Tensor, window: int | None = None, slopes: Tensor | None = None
) -> Tensor:
    """Compute attention by torch's fused kernel."""
    k, v = per_query_head(k, q.shape[1]), per_query_head(v, q.shape[1])
    num_keys = k.shape[2]
    if window is not None and num_keys <= window:
        window = None
    if window is not None and q.shape[2] >= BANDS_FROM and num_keys >= 4 * max(window, SMALLEST_BAND):
        return _banded(q, k, v, window, slopes)
    if window is None and slopes is None and q.shape[2] in (1, num_keys):
        return scaled_dot_product(q, k, v, None, is_causal=q.shape[2] > 1)
    position = torch.arange(num_keys, device=q.device)
    age = position[-q.shape[2] :, None] - position
    return scaled_dot_product(q, k, v, _mask(age, age >= 0, window, slopes, q))


def _banded(q: Tensor, k: Tensor, v: Tensor, window: int, slopes: Tensor | None) -> Tensor:
    """Attend from each block of queries to its own keys and the previous block's, which hold all windows."""
    (heads, length), num_keys = q.shape[1:3], k.shape[2]
    size = max(window, SMALLEST_BAND)
    blocks = -(-num_keys // size)
    fill = blocks * size - num_keys
    q = F.pad(q, (0, 0, num_keys - length, fill)).unflatten(2, (blocks, size))
    k, v = _with_previous(k, size, fill), _with_previous(v, size, fill)
    key = torch.arange(2 * size, device=q.device)
    age = key[size:, None] - key
    real = (key >= size) | (torch.arange(blocks, device=q.device)[:, None, None] > 0)
    mask = _mask(age, (age >= 0) & real, window, None if slopes is None else slopes[:, None], q)
    mask = mask.expand(heads, blocks, size, 2 * size).flatten(0, 1)
    y = scaled_dot_product(q.flatten(1, 2), k, v, mask)
    return y.reshape(-1, heads, blocks * size, y.shape[-1])[:, :, num_keys - length : num_keys]


def _with_previous(x: Float[Tensor, "B H S C"], size: int, fill: int) -> Float[Tensor, "B H*N 2*size C"]:
    blocks = F.pad(x, (0, 0, size, fill)).unflatten(2, (-1, size))
    return torch.cat([blocks[:, :, :-1], blocks[:, :, 1:]], dim=3).flatten(1, 2)


def _mask(
    age: Int[Tensor, "T S"],
    visible: Bool[Tensor, "... T S"],
    window: int | None,
    slopes: Tensor | None,
    q: Tensor,
) -> Tensor:
    """Return True where a query sees a key; with slopes the biases there, and -inf elsewhere."""
    if window is not None:
        visible = visible & (age < window)
    if slopes is None:
        return visible
    biases = -slopes.to(q)[..., None, None] * age
    return biases.masked_fill(~visible, float("-inf"))


def scaled_dot_product(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """Return F.scaled_dot_product_attention of [B H T C]; torch.vmap runs all members without a loop."""
    if mask is not None and mask.ndim == 3:
        mask = mask[None]  # with three dimensions torch would take a path several times slower
    return torch.ops.zoo.scaled_dot_product(q, k, v, mask, is_causal)


def _fused(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
    q, k, v = autocast(q), autocast(k), autocast(v)
    if dense_is_quicker(q, k, mask):
        return attention_dense(q, k, v, mask, is_causal)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal)


def _stacked(
    info: Any, in_dims: tuple, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool
) -> tuple[Tensor, int]:
    members = info.batch_size
    q, k, v = fold(members, in_dims[:3], (q, k, v))
    if mask is not None and in_dims[3] is not None:
        mask = mask.movedim(in_dims[3], 0)
        mask = mask.unflatten(0, (members, *(1,) * (5 - mask.ndim)))
        mask = mask.expand(-1, q.shape[0] // members, -1, -1, -1).flatten(0, 1)
    return scaled_dot_product(q, k, v, mask, is_causal).unflatten(0, (members, -1)), 0


_LIBRARY = torch.library.Library("zoo", "FRAGMENT")
_LIBRARY.define("scaled_dot_product(Tensor q, Tensor k, Tensor v, Tensor? mask, bool is_causal) -> Tensor")
_LIBRARY.impl("scaled_dot_product", _fused, "CompositeImplicitAutograd")
torch.library.register_vmap("zoo::scaled_dot_product", _stacked, lib=_LIBRARY)
