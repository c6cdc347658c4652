"""Titans: the memory trained token by token, its gradients by autograd (arXiv 2501.00663, Eqs. 8 to 14).

Yaad's and Moneta's losses are those of arXiv 2504.13173.
"""

import torch
from torch import Tensor

from tests.definitions.deltanet import norm_1
from tests.definitions.gated_deltanet import output
from zoo.mixers.titans import Titans


def definition(m: Titans, x: Tensor) -> Tensor:
    q, k, v = (x @ m.qkv.weight.T).reshape(*x.shape[:2], 3, m.num_heads, -1).unbind(2)
    q, k = norm_1(q), norm_1(k)
    forget, keep, rate = torch.sigmoid(x @ m.rates.weight.T + m.rates.bias).chunk(3, dim=-1)
    M = [w.expand(x.shape[0], *w.shape) for w in m.inner]
    S = [0 * w for w in M]
    start, ys = M, []
    for t in range(x.shape[1]):
        a, e, r = (part[:, t, :, None, None] for part in (forget, keep, rate))
        if t % m.chunk_size == 0:
            start = M
        loss = losses(m, answer(start, k[:, t]) - v[:, t]).sum()
        gradients = torch.autograd.grad(loss, start, create_graph=True)
        if len(M) > 1 or m.power > 2:
            longest = sum(g.square().sum((-1, -2), keepdim=True) for g in gradients).sqrt().clamp(min=1)
            gradients = [g / longest for g in gradients]
        S = [e * s - r / m.chunk_size * g for s, g in zip(S, gradients, strict=True)]
        M = [(1 - a) * w + s for w, s in zip(M, S, strict=True)]
        ys.append(answer(M, q[:, t]))
    return output(m, torch.stack(ys, dim=1), x)


def losses(m: Titans, error: Tensor) -> Tensor:
    if m.delta is None:
        return (error.abs() ** m.power).sum(-1)
    square = (error * error).sum(-1)
    return torch.where(square <= m.delta**2, square, 2 * m.delta * square.sqrt() - m.delta**2)


def answer(weights: list[Tensor], x: Tensor) -> Tensor:
    y = torch.einsum("bhi,bhij->bhj", x, weights[0])
    if len(weights) > 1:
        y = torch.einsum("bhi,bhij->bhj", y * torch.sigmoid(y), weights[1])
    return y
