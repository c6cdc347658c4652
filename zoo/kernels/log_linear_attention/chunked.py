"""Log-linear attention in blocks of a power of two, at multiples of their size, which the tree never cuts.

Inside such a block the level of key j for query i is the number of binary digits of i xor j: one table for
all.  What lies before the block is in the states of the digits above, one product each.

N blocks of C tokens; the other letters are the interface's.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from zoo.kernels.common.decay import decays
from zoo.kernels.log_linear_attention.reference import add, ones, stacked

CHUNK = 32  # tokens; a power of two


def log_linear_attention_chunked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor,
    scales: Tensor,
    state: Tensor | None = None,
    offset: int = 0,
) -> tuple[Tensor, Tensor]:
    """Compute a block by one table of levels, and the past by the states."""
    live = {} if state is None else dict(zip(ones(offset), state.unbind(1), strict=True))
    sizes = runs(offset, q.shape[2])
    lengths = [size * count for size, count in sizes]
    ys = []
    parts = (x.split(lengths, dim=2) for x in (q, k, v, log_decay, scales))
    for (size, _), *run in zip(sizes, *parts, strict=True):
        q, k, v, log_decay, scales = (x.unflatten(2, (-1, size)) for x in run)
        ys.append(_run(q, k, v, log_decay, scales, live))
    return torch.cat(ys, dim=2), stacked(live)


def runs(start: int, length: int) -> list[tuple[int, int]]:
    """Return size and number of the blocks that fill [start, start + length): the largest that fit."""
    runs, stop = [], start + length
    while start < stop:
        size = min(CHUNK, start & -start or CHUNK, 1 << (stop - start).bit_length() - 1)
        count = (stop - start) // size if size == CHUNK else 1
        runs.append((size, count))
        start += size * count
    return runs


def _run(
    q: Float[Tensor, "B H N C K"],
    k: Float[Tensor, "B H N C K"],
    v: Float[Tensor, "B H N C V"],
    log_decay: Float[Tensor, "B H N C"],
    scales: Float[Tensor, "B H N C L"],
    live: dict[int, Tensor],
) -> Float[Tensor, "B H N*C V"]:
    """Return the answers to some blocks of one size; `live` is brought up to their end."""
    size = q.shape[3]
    left, since_start = decays(log_decay)
    table = levels(size, q.device).expand(*q.shape[:3], size, size)
    inside = (scales.gather(-1, table) * left * (q @ k.mT)) @ v
    written = (k * left[..., -1, :, None]).mT @ v
    ys = []
    blocks = (x.unbind(2) for x in (inside, q * since_start, scales, since_start[..., -1:, :], written))
    for y, q_n, scales_n, decayed, written_n in zip(*blocks, strict=True):
        by_level = scales_n.split(1, dim=-1)
        for bit, S in live.items():
            y = y + (q_n * by_level[bit + 1]) @ S
            live[bit] = decayed * S
        add(live, size.bit_length() - 1, written_n)
        ys.append(y)
    return torch.cat(ys, dim=2)


def levels(size: int, device: torch.device) -> Int[Tensor, "C C"]:
    """Return [i, j]: the binary digits of i xor j, key j's level for query i of an aligned block."""
    place = torch.arange(size, device=device)
    powers = 1 << torch.arange(size.bit_length() - 1, device=device)
    return ((place[:, None] ^ place)[..., None] >= powers).sum(-1)
