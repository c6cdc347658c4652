"""Define linear attention as a recurrence over tokens."""

import torch
from jaxtyping import Float
from torch import Tensor


def linear_attention_reference(
    phi_q: Tensor, phi_k: Tensor, v: Tensor, eps: float | None, kv: Tensor | None, z: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Add up token after token (Katharopoulos et al. 2020, arXiv 2006.16236, Eqs. 16-20)."""
    S, z = sums_before(phi_k, v, eps, kv, z)
    ys = []
    for q_t, k_t, v_t in zip(phi_q.unbind(-2), phi_k.unbind(-2), v.unbind(-2), strict=True):
        S = S + k_t[..., :, None] * v_t[..., None, :]
        y = (q_t[..., :, None] * S).sum(-2)
        if z is not None and eps is not None:
            z = z + k_t
            y = y / ((q_t * z).sum(-1, keepdim=True) + eps)
        ys.append(y)
    return torch.stack(ys, dim=-2), S, z


def sums_before(
    phi_k: Tensor, v: Tensor, eps: float | None, kv: Tensor | None, z: Tensor | None
) -> tuple[Float[Tensor, "B H F V"], Float[Tensor, "B H F"] | None]:
    """Return both sums, zeros in place of None; z is None where eps is, as there is no denominator."""
    if kv is None:
        kv = torch.zeros_like(phi_k[..., 0, :, None] * v[..., 0, None, :])
    if eps is None:
        return kv, None
    return kv, torch.zeros_like(phi_k[..., 0, :]) if z is None else z
