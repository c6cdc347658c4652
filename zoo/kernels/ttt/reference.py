"""Define test-time training, token after token, with the inner model's weights computed for every token."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

EPS = 1e-6
Weights = tuple[Tensor, ...]  # matrix [.. H in out] and bias [.. H 1 out] of each inner layer, in turn


def ttt_reference(
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
    """Compute the weights of every token, their gradients by autograd (Sun et al. 2024, Section 2.4)."""
    weights = tuple(w if w.dim() == 4 else w.expand(len(q), *w.shape) for w in weights)
    ys = []
    for k_t, q_t, v_t, lr_t in zip(*(x.split(1, dim=2) for x in (k, q, v, lr)), strict=True):
        grads = torch.func.grad(_loss)(weights, k_t, v_t - k_t, norm)
        new = [lr_t[..., None] * grad for grad in grads]
        sums = tuple(new if sums is None else [s + n for s, n in zip(sums, new, strict=True)])
        now = tuple(w - scale[offset % len(scale)] * s for w, s in zip(weights, sums, strict=True))
        ys.append(q_t + _normed(_model(q_t, now), norm))
        offset += 1
        if offset % len(scale) == 0:
            weights, sums = now, None
    return torch.cat(ys, dim=2), weights, sums


def _model(x: Tensor, weights: Sequence[Tensor]) -> Tensor:
    z = x @ weights[0] + weights[1]
    for W, b in zip(weights[2::2], weights[3::2], strict=True):
        z = F.gelu(z, approximate="tanh") @ W + b
    return z


def _normed(z: Tensor, norm: tuple[Tensor, Tensor]) -> Tensor:
    centred = z - z.mean(-1, keepdim=True)  # torch's own is wrong from the third derivative on
    return centred * (centred.square().mean(-1, keepdim=True) + EPS).rsqrt() * norm[0] + norm[1]


def _loss(weights: Weights, x: Tensor, target: Tensor, norm: tuple[Tensor, Tensor]) -> Tensor:
    """Return the loss summed over sequences and heads, each of which has weights of its own."""
    return 0.5 * (_normed(_model(x, weights), norm) - target).square().sum()
