"""Linear attention as the recurrence that gives it its name.

T time, F features, V channels of a value; any leading dimensions.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def linear_attention_reference(
    phi_q: Float[Tensor, "... T F"],
    phi_k: Float[Tensor, "... T F"],
    v: Float[Tensor, "... T V"],
    eps: float | None,
) -> Float[Tensor, "... T V"]:
    """y_t = phi(q_t) S_t / (phi(q_t) z_t + eps),  S_t = S_{t-1} + phi(k_t) v_t^T, z_t = z_{t-1} + phi(k_t).

    eps None leaves the denominator out.  Katharopoulos et al. 2020 (arXiv 2006.16236), Eq. 9.
    """
    kv, z, ys = (
        torch.zeros_like(phi_k[..., 0, :, None] * v[..., 0, None, :]),
        torch.zeros_like(phi_k[..., 0, :]),
        [],
    )
    for q_t, k_t, v_t in zip(phi_q.unbind(-2), phi_k.unbind(-2), v.unbind(-2), strict=True):
        kv, z = kv + k_t[..., :, None] * v_t[..., None, :], z + k_t
        y = (q_t[..., :, None] * kv).sum(-2)
        ys.append(y if eps is None else y / ((q_t * z).sum(-1, keepdim=True) + eps))
    return torch.stack(ys, dim=-2)
