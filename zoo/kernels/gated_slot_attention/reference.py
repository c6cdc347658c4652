"""Define gated slot attention, token after token (Zhang et al. 2024, arXiv 2409.07146, Section 3.1)."""

import torch
from jaxtyping import Float
from torch import Tensor

Slots = tuple[Float[Tensor, "B H M K"], Float[Tensor, "B H M V"]]


def gated_slot_attention_reference(
    q: Tensor, k: Tensor, v: Tensor, write: Tensor, log_decay: Tensor, state: Slots | None = None
) -> tuple[Tensor, Slots]:
    """Update the slots and attend to them, token after token."""
    first = write[..., 0, :, None]
    keys, values = state or (torch.zeros_like(first * k[..., :1, :]), torch.zeros_like(first * v[..., :1, :]))
    ys = []
    for q_t, k_t, v_t, w_t, g_t in zip(*(s.unbind(-2) for s in (q, k, v, write, log_decay)), strict=True):
        decay = g_t.exp()[..., None]
        keys = decay * keys + w_t[..., None] * k_t[..., None, :]
        values = decay * values + w_t[..., None] * v_t[..., None, :]
        weights = (keys * q_t[..., None, :]).sum(-1).softmax(-1)
        ys.append((weights[..., None] * values).sum(-2))
    return torch.stack(ys, dim=-2), (keys, values)
