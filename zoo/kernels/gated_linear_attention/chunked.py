"""Gated linear attention in chunks: matrix products inside a chunk, one state between two.

Token i of a chunk reads token j <= i with the weight sum_c q_ic k_jc exp(log decay from j to i, channel c).
Only sums of log decays are exponentiated.  They are <= 0, so nothing overflows however strong the decay is,
and they are not differences of longer sums, so nothing rounds worse than in a computation step by step.

N chunks, C tokens in one; the other letters are those of `gated_linear_attention`.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

CHUNK_OF_SCALARS = 64  # tokens, with one decay a head
CHUNK_ON_A_CPU = 32  # the same on a CPU, where passes over a chunk's weights cost more than one more state
CHUNK_OF_CHANNELS = 16  # tokens, with one a key channel; a power of two


def gated_linear_attention_chunked(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Multiply matrices inside a chunk, and carry one state between two."""
    a_head = log_decay.ndim < k.ndim
    if a_head:
        log_decay = log_decay[..., None]
    length = q.shape[-2]
    of_scalars = CHUNK_ON_A_CPU if q.device.type == "cpu" else CHUNK_OF_SCALARS
    size = min(of_scalars if a_head else CHUNK_OF_CHANNELS, power_of_two(length))
    q, k, v, log_decay = (chunks(s, size) for s in (q, k, v, log_decay))
    weights, until, since = (_by_head if a_head else _by_channel)(q, k, log_decay)
    before, last = states_between(until[..., -1:, :].exp().mT, (k * since.exp()).mT @ v, state)
    y = weights @ v + (q * until.exp()) @ before
    return y.flatten(-3, -2)[..., :length, :], last


def power_of_two(length: int) -> int:
    """Return the least power of two that is at least `length`."""
    return 1 << (length - 1).bit_length()


def chunks(s: Float[Tensor, "B H T X"], size: int) -> Float[Tensor, "B H N C X"]:
    """Cut into chunks, the last filled up with zeros: such keys write nothing, such log decays keep all."""
    missing = -s.shape[-2] % size
    return (F.pad(s, (0, 0, 0, missing)) if missing else s).unflatten(-2, (-1, size))


def states_between(
    decay: Float[Tensor, "B H N K 1"],
    written: Float[Tensor, "B H N K V"],
    state: Float[Tensor, "B H K V"] | None,
) -> tuple[Float[Tensor, "B H N K V"], Float[Tensor, "B H K V"]]:
    """Return the state before each chunk, and after the last."""
    S = torch.zeros_like(written[..., 0, :, :]) if state is None else state
    before = []
    for decay_n, written_n in zip(decay.unbind(-3), written.unbind(-3), strict=True):
        before.append(S)
        S = torch.addcmul(written_n, decay_n, S)
    return torch.stack(before, dim=-3), S


def _by_head(
    q: Float[Tensor, "B H N C K"], k: Float[Tensor, "B H N C K"], log_decay: Float[Tensor, "B H N C 1"]
) -> tuple[Float[Tensor, "B H N C C"], Float[Tensor, "B H N C 1"], Float[Tensor, "B H N C 1"]]:
    """Return the weights, and log decays from the chunk's start to each token, and on to its end."""
    size = q.shape[-2]
    later = torch.ones(size, size, dtype=torch.bool, device=q.device).tril(-1)
    between = log_decay.expand(*log_decay.shape[:-1], size).masked_fill(~later, 0).cumsum(-2)
    decay = between.masked_fill(later.mT, -torch.inf).exp()
    return (q @ k.mT) * decay, log_decay.cumsum(-2), between[..., -1:, :].mT


def _by_channel(
    q: Float[Tensor, "B H N C K"], k: Float[Tensor, "B H N C K"], log_decay: Float[Tensor, "B H N C K"]
) -> tuple[Float[Tensor, "B H N C C"], Float[Tensor, "B H N C K"], Float[Tensor, "B H N C K"]]:
    """Return the weights and both log decays.  Two blocks side by side make one of twice the size.

    Where the later half reads the earlier one, the decay from j to i is that from j to the cut between the
    halves times that from the cut to i: two factors <= 1 and a matrix product.
    """
    until, since, weights = log_decay, torch.zeros_like(log_decay), (q * k).sum(-1)[..., None, None]
    while weights.shape[-1] < q.shape[-2]:
        rows = (s.unflatten(-2, (-1, 2, weights.shape[-1])).unbind(-3) for s in (q, k, until, since))
        (_, q2), (k1, _), (until1, until2), (since1, since2) = rows
        across = (q2 * until2.exp()) @ (k1 * since1.exp()).mT
        until = joined(until1, until2 + until1[..., -1:, :])
        since = joined(since1 + until2[..., -1:, :], since2)
        first, second = weights.unflatten(-3, (-1, 2)).unbind(-3)
        above = torch.cat([first, torch.zeros_like(across)], dim=-1)
        weights = torch.cat([above, torch.cat([across, second], dim=-1)], dim=-2)
    return weights.squeeze(-3), until, since


def joined(
    first: Float[Tensor, "... n C/2 X"], second: Float[Tensor, "... n C/2 X"]
) -> Float[Tensor, "... n*C X"]:
    """Join the earlier and the later halves of blocks again, with their tokens in order."""
    return torch.stack([first, second], dim=-3).flatten(-4, -2)
