"""TTT-Linear and TTT-MLP: a gradient step a token, Sun et al. 2024 (arXiv 2407.04620), Sections 2.3 to 2.7.

The inner loss is differentiated by autograd, and each token's inner weights are written out.
"""

import torch
from torch import Tensor

from zoo.mixers.ttt import TTT


def layer_norm(z: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    mean = z.mean(-1, keepdim=True)
    return (z - mean) / torch.sqrt(((z - mean) ** 2).mean(-1, keepdim=True) + 1e-6) * weight + bias


def f(m: TTT, weights: list[Tensor], x: Tensor) -> Tensor:
    """x + LN(f_res(x)) for one token a sequence: x [B H 1 C]."""
    z = x @ weights[0] + weights[1]
    if len(weights) == 4:
        cubic = 0.7978845608028654 * (z + 0.044715 * z**3)
        z = 0.5 * z * (1 + torch.tanh(cubic)) @ weights[2] + weights[3]
    return x + layer_norm(z, m.norm_weight, m.norm_bias)


def turned(x: Tensor, place: int) -> Tensor:
    """RoPE: channels c and c + C/2 are a complex number that turns."""
    half = x.shape[-1] // 2
    rates = 10000.0 ** (-torch.arange(half, dtype=x.dtype) / half)
    z = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(rates), place * rates)
    return torch.cat([z.real, z.imag], dim=-1)


def definition(m: TTT, x: Tensor) -> Tensor:
    B, _, D = x.shape
    q, k, v = (x @ W.T for W in m.qkv.weight.split(D))
    rate = m.base_lr / m.head_dim * torch.sigmoid(x @ m.rate.weight.T + m.rate.bias)
    start, steps, ys = [w.expand(B, *w.shape) for w in m.inner], [], []
    for t in range(x.shape[1]):
        place = t % m.mini_batch
        q_t, k_t, v_t = (z[:, t].reshape(B, m.num_heads, 1, -1) for z in (q, k, v))
        q_t, k_t = turned(q_t, place), turned(k_t, place)

        def loss(weights: list[Tensor], k_t: Tensor = k_t, v_t: Tensor = v_t) -> Tensor:
            return 0.5 * ((f(m, weights, k_t) - v_t) ** 2).sum()

        gradient = torch.func.grad(loss)(start)
        steps.append([rate[:, t, :, None, None] * g for g in gradient])
        scale = torch.relu(1 / (place + 1) + m.token_scale[place])
        now = [w - scale * sum(part) for w, part in zip(start, zip(*steps, strict=True), strict=True)]
        ys.append(f(m, now, q_t).flatten(1))
        if place == m.mini_batch - 1:
            start, steps = now, []
    y = layer_norm(torch.stack(ys, dim=1), m.post_norm.weight, m.post_norm.bias)
    return y @ m.out_proj.weight.T
