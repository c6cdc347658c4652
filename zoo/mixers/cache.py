"""Store a decoder's state: caches that grow in place, and states that keep no activations alive."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils._pytree import tree_map_only

BUFFER = "buffer"  # attribute of a cache: the tensor whose first entries the cache is
FILLED = "filled"  # attribute of that tensor: how many of its entries are written


class State(NamedTuple):
    """Hold the keys and values of all S tokens so far, in G heads of C channels."""

    k: Float[Tensor, "B G S C"]
    v: Float[Tensor, "B G S C"]


def append(held: Tensor, new: Tensor, dim: int) -> Tensor:
    """Return `held` followed by `new` along `dim`, in time that does not depend on how long `held` is.

    While no gradient is recorded, the result is a view of the first entries of a buffer with room for as many
    again, so that n steps copy at most 2 n entries.  `held` never changes: a second continuation of the same
    state finds the room taken, and gets a buffer of its own.

    A state's size counts the entries in the view.  Up to as many empty ones follow, so that a cache takes at
    most twice the bytes of its size, and exactly those bytes before the first step.
    """
    if torch.is_grad_enabled():
        return torch.cat([held, new], dim=dim)
    begin, end = held.shape[dim], held.shape[dim] + new.shape[dim]
    buffer = getattr(held, BUFFER, None)
    if buffer is None or getattr(buffer, FILLED) != begin or buffer.shape[dim] < end:
        shape = list(held.shape)
        shape[dim] = 2 * end
        buffer = held.new_empty(shape)
        buffer.narrow(dim, 0, begin).copy_(held)
    buffer.narrow(dim, begin, new.shape[dim]).copy_(new)
    cache = buffer.narrow(dim, 0, end)
    setattr(buffer, FILLED, end)
    setattr(cache, BUFFER, buffer)
    return cache


def owned(state: Any) -> Any:
    """Return the state with every tensor in storage of its own size.

    A prefill's state is often a view of what the prefill computed (the tail of a convolution's input, the
    last of many sums), all of which would live as long as the state.  A growing cache keeps its spare room.
    """
    return tree_map_only(Tensor, _copied_if_larger, state)


def _copied_if_larger(tensor: Tensor) -> Tensor:
    """Return the tensor, or a copy of it where its storage holds more than it shows."""
    if getattr(tensor, BUFFER, None) is not None:
        return tensor
    needed = tensor.numel() * tensor.element_size()
    return tensor if _stored(tensor) <= needed else tensor.clone(memory_format=torch.contiguous_format)


def _stored(tensor: Tensor) -> int:
    """Return the bytes that a tensor keeps alive; 0 for one inside vmap, which has no storage."""
    try:
        return tensor.untyped_storage().nbytes()
    except (NotImplementedError, RuntimeError):
        return 0
