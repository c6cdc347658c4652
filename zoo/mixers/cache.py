"""How decoding stores its state: caches that grow in place, and states that keep no activations alive."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

FILLED = "filled"  # on a growing buffer: how many of its entries are written


def append(held: Tensor, new: Tensor, dim: int) -> Tensor:
    """Return `held` followed by `new` along `dim`, in time that does not depend on how long `held` is.

    While no gradient is wanted, the result is a view of a buffer with room for as much again, so that n steps
    copy at most 2 n entries.  `held` stays as it is: a second continuation of the same state finds the room
    taken, and gets a buffer of its own.
    """
    if torch.is_grad_enabled() and (held.requires_grad or new.requires_grad):
        return torch.cat([held, new], dim=dim)
    begin, end = held.shape[dim], held.shape[dim] + new.shape[dim]
    buffer = held._base
    if buffer is None or not _is_filled_up_to(buffer, held, dim) or buffer.shape[dim] < end:
        shape = list(held.shape)
        shape[dim] = 2 * end
        buffer = held.new_empty(shape)
        buffer.narrow(dim, 0, begin).copy_(held)
    buffer.narrow(dim, begin, new.shape[dim]).copy_(new)
    setattr(buffer, FILLED, end)
    return buffer.narrow(dim, 0, end)


def _is_filled_up_to(buffer: Tensor, held: Tensor, dim: int) -> bool:
    """Return whether `held` is all that a growing buffer holds, from its beginning on."""
    here = getattr(buffer, FILLED, None) == held.shape[dim] and buffer.stride() == held.stride()
    return here and held.storage_offset() == 0


def owned(state: Any) -> Any:
    """Return the state with every tensor in storage of its own size.

    A prefill's state is often a view of what the prefill computed (the tail of a convolution's input, the
    last of many sums), which would stay alive as long as the state does.  A cache that grows keeps its room.
    """
    return tree_map_only(Tensor, _own, state)


def _own(tensor: Tensor) -> Tensor:
    if getattr(tensor._base, FILLED, None) is not None:
        return tensor
    needed = tensor.numel() * tensor.element_size()
    return tensor if _stored(tensor) <= needed else tensor.clone(memory_format=torch.contiguous_format)


def _stored(tensor: Tensor) -> int:
    """Return the bytes that a tensor keeps alive; 0 for one inside vmap, which has no storage to ask for."""
    try:
        return tensor.untyped_storage().nbytes()
    except (NotImplementedError, RuntimeError):
        return 0
