"""Gated slot attention in two passes over chunks, with the softmax between them.

Reading the slots' values is gated linear attention with the softmax for queries.  Before that, the logits
of slot m at token i are the sum over j <= i of (q_i k_j) write_jm exp(log decay from j to i, slot m).  Here
the slots decay and not the key channels, but chunks and halves of chunks work as in that op.

N chunks, C tokens in one; the other letters are those of `gated_slot_attention`.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.gated_linear_attention.chunked import (
    CHUNK_OF_CHANNELS,
    chunks,
    gated_linear_attention_chunked,
    joined,
    power_of_two,
    states_between,
)
from zoo.kernels.gated_slot_attention.reference import Slots


def gated_slot_attention_chunked(
    q: Tensor, k: Tensor, v: Tensor, write: Tensor, log_decay: Tensor, state: Slots | None = None
) -> tuple[Tensor, Slots]:
    """Make the logits in chunks, then read the values in chunks."""
    keys, values = (None, None) if state is None else state
    logits, keys = logits_chunked(q, k, write, log_decay, keys)
    y, values = gated_linear_attention_chunked(logits.softmax(-1), write, v, log_decay, values)
    return y, (keys, values)


def logits_chunked(
    q: Tensor, k: Tensor, write: Tensor, log_decay: Tensor, keys: Float[Tensor, "B H M K"] | None
) -> tuple[Float[Tensor, "B H T M"], Float[Tensor, "B H M K"]]:
    """Return the logits of every slot at every token, and the last keys."""
    length = q.shape[-2]
    size = min(CHUNK_OF_CHANNELS, power_of_two(length))
    q, k, write, log_decay = (chunks(s, size) for s in (q, k, write, log_decay))
    logits, until, since = _within(q, k, write, log_decay)
    before, last = states_between(until[..., -1:, :].exp().mT, (write * since.exp()).mT @ k, keys)
    logits = logits + (q @ before.mT) * until.exp()
    return logits.flatten(-3, -2)[..., :length, :], last


def _within(
    q: Float[Tensor, "B H N C K"],
    k: Float[Tensor, "B H N C K"],
    write: Float[Tensor, "B H N C M"],
    log_decay: Float[Tensor, "B H N C M"],
) -> tuple[Float[Tensor, "B H N C M"], Float[Tensor, "B H N C M"], Float[Tensor, "B H N C M"]]:
    """Return logits of the chunk's own tokens; log decays from its start to each, and on to its end."""
    until, since, logits = log_decay, torch.zeros_like(log_decay), (q * k).sum(-1, keepdim=True) * write
    half = 1
    while half < q.shape[-2]:
        rows = (s.unflatten(-2, (-1, 2, half)).unbind(-3) for s in (q, k, write, until, since, logits))
        (_, q2), (k1, _), (write1, _), (until1, until2), (since1, since2), (logits1, logits2) = rows
        across = (q2 @ k1.mT @ (write1 * since1.exp())) * until2.exp()
        logits = joined(logits1, logits2 + across)
        until = joined(until1, until2 + until1[..., -1:, :])
        since = joined(since1 + until2[..., -1:, :], since2)
        half *= 2
    return logits, until, since
