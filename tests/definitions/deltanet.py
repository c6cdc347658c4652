"""DeltaNet: the recurrence, Yang et al. 2024 (arXiv 2406.06484), Eq. 1, with q, k, v of its Section 3.4."""

import torch
from torch import Tensor, nn

from zoo.mixers.deltanet import DeltaNet

PACKAGE = "fla-core: fla.ops.delta_rule.naive.delta_rule_recurrence"
PACKAGE_TOLERANCE = 1e-5  # it works in float32


def convolved(weight: Tensor, taps: Tensor, x: Tensor) -> Tensor:
    """SiLU of the causal convolution of x W^T: [B T C]."""
    return silu(causal(taps, x @ weight.T))


def causal(taps: Tensor, u: Tensor, bias: Tensor | None = None) -> Tensor:
    """The convolution of u [B T C] and its bias: tap r acts on the input r steps back."""
    mixed = torch.zeros_like(u) if bias is None else bias.expand_as(u)
    for r in range(min(len(taps), u.shape[1])):
        mixed = mixed + taps[r] * torch.cat([torch.zeros_like(u[:, :r]), u], dim=1)[:, : u.shape[1]]
    return mixed


def silu(x: Tensor) -> Tensor:
    return x / (1 + torch.exp(-x))


def norm_1(z: Tensor) -> Tensor:
    return z / torch.sqrt((z * z).sum(-1, keepdim=True) + 1e-6)


def rms(y: Tensor, norm: nn.RMSNorm) -> Tensor:
    return y / torch.sqrt((y * y).mean(-1, keepdim=True) + 1e-5) * norm.weight


def inputs(m: DeltaNet, x: Tensor) -> tuple[Tensor, ...]:
    """q, k, v: [B T H C], beta: [B T H]."""
    mixed = convolved(m.qkv.proj.weight, m.qkv.conv.weight, x)
    q, k, v = mixed.reshape(*x.shape[:2], 3, m.num_heads, -1).unbind(2)
    return norm_1(q), norm_1(k), v, m.most * torch.sigmoid(x @ m.beta.weight.T)


def definition(m: DeltaNet, x: Tensor) -> Tensor:
    q, k, v, beta = inputs(m, x)
    S = x.new_zeros(x.shape[0], m.num_heads, m.head_dim, m.head_dim)  # values by keys
    ys = []
    for t in range(x.shape[1]):
        b, k_t = beta[:, t, :, None, None], k[:, t, :, :, None]
        S = S - b * (S @ k_t) @ k_t.mT + b * v[:, t, :, :, None] @ k_t.mT
        ys.append((S @ q[:, t, :, :, None])[..., 0] / m.head_dim**0.5)
    y = rms(torch.stack(ys, dim=1), m.output.norm)
    return y.flatten(2) @ m.output.proj.weight.T


def package(m: DeltaNet, x: Tensor) -> Tensor:
    from fla.ops.delta_rule.naive import delta_rule_recurrence

    q, k, v, beta = (z.transpose(1, 2) for z in inputs(m, x))
    y, _ = delta_rule_recurrence(q, k, v, beta)
    return rms(y.transpose(1, 2).to(x.dtype), m.output.norm).flatten(2) @ m.output.proj.weight.T
