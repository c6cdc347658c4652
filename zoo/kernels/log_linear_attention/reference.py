"""Define log-linear attention, token after token, by a Fenwick tree (Guo et al. 2025, arXiv 2506.04761)."""

import torch
from jaxtyping import Float
from torch import Tensor


def log_linear_attention_reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor,
    scales: Tensor,
    state: Tensor | None = None,
    offset: int = 0,
) -> tuple[Tensor, Tensor]:
    """Compute y token after token; states are kept like the digits 1 of a binary counter."""
    live = {} if state is None else dict(zip(ones(offset), state.unbind(1), strict=True))
    ys = []
    tokens = (x.unbind(2) for x in (q, k, v, log_decay.exp(), scales))
    for q_t, k_t, v_t, decay_t, scale_t in zip(*tokens, strict=True):
        live = {bit: decay_t[..., None, None] * S for bit, S in live.items()}
        written = k_t[..., :, None] * v_t[..., None, :]
        read = scale_t[..., 0, None, None] * written
        for bit, S in live.items():
            read = read + scale_t[..., bit + 1, None, None] * S
        ys.append((q_t[..., None] * read).sum(-2))
        add(live, 0, written)
        offset += 1
    return torch.stack(ys, dim=2), stacked(live)


def ones(number: int) -> list[int]:
    """Return the places of the binary digits that are 1, from the lowest."""
    return [bit for bit in range(number.bit_length()) if number >> bit & 1]


def add(live: dict[int, Tensor], bit: int, written: Tensor) -> None:
    """Count up by `written` at digit `bit`: the states of the digits that carry are added to it."""
    while bit in live:
        written, bit = written + live.pop(bit), bit + 1
    live[bit] = written


def stacked(live: dict[int, Tensor]) -> Float[Tensor, "B S H K V"]:
    """Return the states side by side, from the lowest digit."""
    return torch.stack([live[bit] for bit in sorted(live)], dim=1)
