"""Test-time training, token after token: the inner model's weights are written out for every token."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

EPS = 1e-6
Weights = tuple[Tensor, ...]  # matrix [.. H in out] and bias [.. H 1 out] of each inner layer, in turn


def ttt_reference(
    q: Float[Tensor, "B H T C"],
    k: Float[Tensor, "B H T C"],
    v: Float[Tensor, "B H T C"],
    lr: Float[Tensor, "B H T"],
    scale: Float[Tensor, "M"],
    norm: tuple[Float[Tensor, "H 1 C"], Float[Tensor, "H 1 C"]],
    weights: Weights,
    sums: Weights | None = None,
    seen: int = 0,
) -> tuple[Float[Tensor, "B H T C"], Weights, Weights | None]:
    """W_i = W_start - scale_i sum_{j<=i} lr_j grad_j and y_i = q_i + LN(f(q_i; W_i)).

    As `zoo.kernels.ttt.ttt`, the gradients by autograd (Sun et al. 2024, arXiv 2407.04620, Section 2.4).
    """
    ys = []
    for k_t, q_t, v_t, lr_t in zip(*(x.split(1, dim=2) for x in (k, q, v, lr)), strict=True):
        grads = torch.func.grad(_loss)(weights, k_t, v_t - k_t, norm)
        new = [lr_t[..., None] * grad for grad in grads]
        sums = tuple(new if sums is None else [s + n for s, n in zip(sums, new, strict=True)])
        now = tuple(w - scale[seen % len(scale)] * s for w, s in zip(weights, sums, strict=True))
        ys.append(q_t + _normed(_model(q_t, now), norm))
        seen += 1
        if seen % len(scale) == 0:
            weights, sums = now, None
    return torch.cat(ys, dim=2), weights, sums


def _model(x: Tensor, weights: Sequence[Tensor]) -> Tensor:
    z = x @ weights[0] + weights[1]
    for W, b in zip(weights[2::2], weights[3::2], strict=True):
        z = F.gelu(z, approximate="tanh") @ W + b
    return z


def _normed(z: Tensor, norm: tuple[Tensor, Tensor]) -> Tensor:
    return F.layer_norm(z, z.shape[-1:], eps=EPS) * norm[0] + norm[1]


def _loss(weights: Weights, x: Tensor, target: Tensor, norm: tuple[Tensor, Tensor]) -> Tensor:
    """Summed over sequences and heads, whose weights are their own: the gradient of each is its own."""
    return 0.5 * (_normed(_model(x, weights), norm) - target).square().sum()
