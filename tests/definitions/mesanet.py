"""MesaNet: the regularised least-squares fit at every token, von Oswald et al. 2025 (arXiv 2506.05233)."""

import torch
from torch import Tensor

from tests.definitions.deltanet import convolved, norm_1, rms
from zoo.mixers.mesanet import MesaNet

PACKAGE = "fla-core: fla.ops.mesa_net.naive.naive_mesa_net_exact"
PACKAGE_TOLERANCE = 1e-4  # it works in float32, and solves a system there


def inputs(m: MesaNet, x: Tensor) -> tuple[Tensor, ...]:
    """q, k, v: [B T H C], log of the decay, beta: [B T H], ridge: [H C]."""
    q, k = convolved(m.qk.proj.weight, m.qk.conv.weight, x).unflatten(-1, (2, m.num_heads, -1)).unbind(2)
    v = (x @ m.value.weight.T).unflatten(-1, (m.num_heads, -1))
    beta, keep = torch.sigmoid(x @ m.gates.weight.T + m.gates.bias).split(m.num_heads, dim=-1)
    ridge = 0.25 + torch.log1p(torch.exp(m.ridge))
    return norm_1(q), norm_1(k), v, torch.log(keep), beta, ridge


def definition(m: MesaNet, x: Tensor) -> Tensor:
    """W_t minimises sum_j weight_tj |v_j - W k_j|^2 + |W diag(ridge)^(1/2)|^2: by normal equations."""
    q, k, v, log_keep, beta, ridge = (z.transpose(1, 2) if z.ndim > 2 else z for z in inputs(m, x))
    ys = []
    for t in range(x.shape[1]):
        after = torch.cat([log_keep[..., 1 : t + 1], torch.zeros_like(beta[..., :1])], dim=-1)
        weight = (torch.exp(after.flip(-1).cumsum(-1).flip(-1)) * beta[..., : t + 1])[..., None]
        K, V = k[:, :, : t + 1], v[:, :, : t + 1]
        normal = K.mT @ (weight * K) + torch.diag_embed(ridge)
        W = torch.linalg.solve(normal, K.mT @ (weight * V)).mT
        ys.append((W @ q[:, :, t, :, None])[..., 0])
    return rms(torch.stack(ys, dim=1), m.output.norm).flatten(2) @ m.output.proj.weight.T


def package(m: MesaNet, x: Tensor) -> Tensor:
    from fla.ops.mesa_net.naive import naive_mesa_net_exact

    q, k, v, log_keep, beta, ridge = inputs(m, x)
    y, *_ = naive_mesa_net_exact(q, k, v, log_keep, ridge, beta)
    return rms(y.to(x.dtype), m.output.norm).flatten(2) @ m.output.proj.weight.T
