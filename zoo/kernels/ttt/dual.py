"""Compute test-time training in its dual form: by mini-batches, without the weights after each token.

All gradients of a mini-batch are taken at the weights W of its start.  A layer's gradient for token j is the
outer product of its input x_j and the gradient g_j of its output, so what token i reads from a layer is

    h_i W_i = h_i W - scale_i (h_i sums + sum_{j<=i} (h_i . x_j) lr_j g_j)

with `sums` of the lr_j x_j g_j^T of earlier calls, where they ended inside the mini-batch (Sun et al. 2024,
arXiv 2407.04620, Section 2.5).  A bias is a weight whose input is 1.  Inner gradients are analytic: they are
few products, and autograd differentiates them again for the outer loss.  One sigmoid gives GELU, its slope
and, for autograd, its curvature.

N: sequences times heads, M: tokens of a mini-batch.
"""

from itertools import pairwise
from math import pi
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from zoo.kernels.common.first_order import first_order
from zoo.kernels.ttt.reference import EPS, Weights

ROOT, CUBIC = (2 / pi) ** 0.5, 0.044715


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
    size, first, whole = len(scale), offset % len(scale), q.shape
    lengths = _pieces(first, q.shape[2], size)
    inner = _flat(weights, len(q))
    added = None if sums is None else _flat(sums, len(q))
    norm_of_row = _flat(norm, len(q))
    pieces = (x.flatten(0, 1).split(lengths, 1) for x in (q, k, v - k, lr[..., None]))
    ys = []
    for q_, k_, target, lr_ in zip(*pieces, strict=True):
        stop = first + q_.shape[1]
        y, steps = _piece(q_, k_, target, lr_, scale[first:stop, None], norm_of_row, inner, added)
        ys.append(y)
        first = stop % size
        if first == 0:
            inner = tuple(_moved(w, x, scale[-1] * step) for w, (x, step) in zip(inner, steps, strict=True))
            if added is not None:
                inner = tuple(w - scale[-1] * s for w, s in zip(inner, added, strict=True))
            added = None
        else:
            new = tuple(x.mT @ step for x, step in steps)
            added = new if added is None else tuple(s + n for s, n in zip(added, new, strict=True))
    y = torch.cat(ys, dim=1).unflatten(0, whole[:2])
    y = q + F.layer_norm(y, y.shape[-1:], eps=EPS) * norm[0] + norm[1]
    after = weights if offset + whole[2] < size else tuple(w.unflatten(0, whole[:2]) for w in inner)
    return y, after, None if added is None else tuple(s.unflatten(0, whole[:2]) for s in added)


def _flat(weights: Weights, batch: int) -> Weights:
    """Return [N in out] of [H in out] or [B H in out]."""
    return tuple((w if w.dim() == 4 else w.expand(batch, *w.shape)).flatten(0, 1) for w in weights)


def _moved(weight: Float[Tensor, "N I O"], x: Float[Tensor, "N M I"], step: Float[Tensor, "N M O"]) -> Tensor:
    """Return weight - x^T step."""
    return torch.baddbmm(weight, x.mT, step, alpha=-1)


def _pieces(first: int, length: int, size: int) -> list[int]:
    """Return the number of tokens in each mini-batch."""
    cuts = [0, *range(size - first, length, size), length]
    return [stop - start for start, stop in pairwise(cuts)]


def _piece(
    q: Float[Tensor, "N M C"],
    k: Float[Tensor, "N M C"],
    target: Float[Tensor, "N M C"],
    lr: Float[Tensor, "N M 1"],
    scale: Float[Tensor, "M 1"],
    norm: tuple[Tensor, ...],
    weights: Weights,
    sums: Weights | None,
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Return the inner model's outputs for tokens of one mini-batch, and for each weight its inputs and the
    gradients of its outputs times the tokens' rates.
    """
    Ws, bs = weights[::2], weights[1::2]
    inputs, grads = _gradients(k, target, Ws, bs, norm)
    ones = torch.ones_like(lr)
    answer, steps = q, []
    for i, (W, b, x, g) in enumerate(zip(Ws, bs, inputs, grads, strict=True)):
        h = _GeluAndSlope.apply(answer)[0] if i else answer
        step = lr * g
        moved = (h @ x.mT + 1).tril() @ step
        if sums is not None:
            moved = moved + h @ sums[2 * i] + sums[2 * i + 1]
        answer = torch.baddbmm(b, h, W) - scale * moved
        steps += [(x, step), (ones, step)]
    return answer, steps


def _gradients(
    x: Tensor, target: Tensor, Ws: Weights, bs: Weights, norm: tuple[Tensor, ...]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the inputs of each layer, and the inner loss's gradients for its outputs."""
    inputs, slopes = [x], []
    for W, b in zip(Ws[:-1], bs, strict=False):
        value, slope, _ = _GeluAndSlope.apply(torch.baddbmm(b, inputs[-1], W))
        inputs.append(value)
        slopes.append(slope)
    grads = [_loss_gradient(torch.baddbmm(bs[-1], inputs[-1], Ws[-1]), target, norm)]
    for W, slope in zip(Ws[:0:-1], slopes[::-1], strict=True):
        grads.append(grads[-1] @ W.mT * slope)
    return inputs, grads[::-1]


def _loss_gradient(z: Tensor, target: Tensor, norm: tuple[Tensor, ...]) -> Tensor:
    """Return the gradient of 1/2 |weight * unit(z) + bias - target|^2 for z; unit: mean 0, variance 1."""
    centred = z - z.mean(-1, keepdim=True)
    rate = (centred.square().mean(-1, keepdim=True) + EPS).rsqrt()
    unit = centred * rate
    g = (norm[0] * unit + norm[1] - target) * norm[0]
    return rate * (g - g.mean(-1, keepdim=True) - unit * (g * unit).mean(-1, keepdim=True))


class _GeluAndSlope(Function):
    """Compute z s and its derivative, s = sigmoid(2 u), u = (z + CUBIC z^3) sqrt(2 / pi): GELU by tanh."""

    generate_vmap_rule = True

    @staticmethod
    def forward(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # pyright: ignore
        """Return both, and s."""
        twice_u = (z * z).mul_(2 * ROOT * CUBIC).add_(2 * ROOT).mul_(z)
        s = twice_u.sigmoid()
        by_z = twice_u.mul_(3).sub_(4 * ROOT * z)  # z ds/dz over s (1 - s): 2 z u' = 6 u - 4 ROOT z
        return z * s, torch.addcmul(s, by_z, torch.addcmul(s, s, s, value=-1)), s

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, ...]) -> None:  # pyright: ignore
        """Keep z, the slope and s."""
        ctx.mark_non_differentiable(output[2])
        ctx.save_for_backward(inputs[0], *output[1:])

    @staticmethod
    @first_order
    def backward(ctx: Any, by_value: Tensor, by_slope: Tensor, _: Tensor) -> tuple[Tensor]:  # pyright: ignore
        """Apply the slope and the curvature s (1 - s) (4 u' + z (2 u'' + 4 u'^2 (1 - 2 s)))."""
        z, slope, s = ctx.saved_tensors
        square = z * z
        bent = square.mul(6 * ROOT * CUBIC).add_(2 * ROOT)  # 2 u'
        inside = (1 - 2 * s).mul_(bent).mul_(bent).mul_(z).add_(bent, alpha=2)
        inside.add_(square, alpha=12 * ROOT * CUBIC).mul_(torch.addcmul(s, s, s, value=-1))
        return (torch.addcmul(by_value * slope, by_slope, inside),)
