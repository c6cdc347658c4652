"""Test-time training in its dual form: a mini-batch at a time, and no token's weights are ever written out.

All gradients of a mini-batch are taken at the weights W of its start.  A layer's gradient for token j is the
outer product of its input x_j and the gradient g_j of its output, so what token i reads from a layer is

    h_i W_i = h_i W - scale_i (h_i sums + sum_{j<=i} (h_i . x_j) lr_j g_j)

with `sums` of the lr_j x_j g_j^T from before, where the mini-batch was cut (Sun et al. 2024, arXiv
2407.04620, Section 2.5).  A bias is a weight whose input is 1.  Gradients inside are analytic: they are few
products, and autograd goes through them a second time for the outer loss.
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from zoo.kernels.ttt.reference import EPS, Weights


def ttt_dual(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lr: Tensor,
    scale: Tensor,
    norm: tuple[Tensor, Tensor],
    weights: Weights,
    sums: Weights | None = None,
    offset: int = 0,
) -> tuple[Tensor, Weights, Weights | None]:
    """Train a mini-batch at a time."""
    size, first = len(scale), offset % len(scale)
    lengths = _pieces(first, q.shape[2], size)
    ys = []
    for q_, k_, target, lr_ in zip(*(x.split(lengths, 2) for x in (q, k, v - k, lr[..., None])), strict=True):
        stop = first + q_.shape[2]
        y, sums = _piece(q_, k_, target, lr_, scale[first:stop, None], norm, weights, sums)
        ys.append(y)
        first = stop % size
        if first == 0:
            weights = tuple(w - scale[-1] * s for w, s in zip(weights, sums, strict=True))
            sums = None
    y = F.layer_norm(torch.cat(ys, dim=2), q.shape[-1:], eps=EPS) * norm[0] + norm[1]
    return q + y, weights, sums


def _pieces(first: int, length: int, size: int) -> list[int]:
    """Return the number of tokens in each mini-batch."""
    cuts = [0, *range(size - first, length, size), length]
    return [stop - start for start, stop in pairwise(cuts)]


def _piece(
    q: Tensor,
    k: Tensor,
    target: Tensor,
    lr: Tensor,
    scale: Tensor,
    norm: tuple[Tensor, Tensor],
    weights: Weights,
    sums: Weights | None,
) -> tuple[Tensor, Weights]:
    """Return the inner model's answers to tokens of one mini-batch, and the sums with them."""
    Ws, bs = weights[::2], weights[1::2]
    inputs, grads = _gradients(k, target, Ws, bs, norm)
    answer, new = q, []
    for i, (W, b, x, g) in enumerate(zip(Ws, bs, inputs, grads, strict=True)):
        h = F.gelu(answer, approximate="tanh") if i else answer
        step = lr * g
        moved = (h @ x.mT + 1).tril() @ step
        added = [x.mT @ step, step.sum(-2, keepdim=True)]
        if sums is not None:
            moved = moved + h @ sums[2 * i] + sums[2 * i + 1]
            added = [added[0] + sums[2 * i], added[1] + sums[2 * i + 1]]
        answer = h @ W + b - scale * moved
        new += added
    return answer, tuple(new)


def _gradients(
    x: Tensor, target: Tensor, Ws: Weights, bs: Weights, norm: tuple[Tensor, Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the inputs of each layer, and the inner loss's gradients for its outputs."""
    inputs, zs = [x], []
    for W, b in zip(Ws, bs, strict=True):
        if zs:
            inputs.append(F.gelu(zs[-1], approximate="tanh"))
        zs.append(inputs[-1] @ W + b)
    grads = [_loss_gradient(zs[-1], target, norm)]
    for W, z in zip(Ws[:0:-1], zs[-2::-1], strict=True):
        grads.append(torch.ops.aten.gelu_backward(grads[-1] @ W.mT, z, approximate="tanh"))
    return inputs, grads[::-1]


def _loss_gradient(z: Tensor, target: Tensor, norm: tuple[Tensor, Tensor]) -> Tensor:
    """Return the gradient of 1/2 |weight * unit(z) + bias - target|^2 for z; unit: mean 0, variance 1."""
    centred = z - z.mean(-1, keepdim=True)
    rate = (centred.square().mean(-1, keepdim=True) + EPS).rsqrt()
    unit = centred * rate
    g = (norm[0] * unit + norm[1] - target) * norm[0]
    return rate * (g - g.mean(-1, keepdim=True) - unit * (g * unit).mean(-1, keepdim=True))
