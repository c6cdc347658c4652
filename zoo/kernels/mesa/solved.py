"""The Mesa layer with all systems of a sequence solved at once, exactly, by Cholesky factors.

A token's matrix A_t = kk_t + diag(ridge) is needed only for its factor, so matrices are made for a block of
tokens at a time, outside of autograd.  Gradients come from the product of A_t and a vector, which is gated
linear attention with keys as values: with x the solution as a constant, x + A_t^{-1} (q - A_t x) has the
value and, where only the inverse is held fixed, the derivative of A_t^{-1} q.  (It is one step of iterative
refinement, too.)

The authors stop a conjugate gradient after some 30 steps; here the result depends on no number of steps.  The
factors, K x K for each token, are kept for the backward pass.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from zoo.kernels.common.decay import decays
from zoo.kernels.gated_linear_attention import gated_linear_attention
from zoo.kernels.mesa.reference import State

BLOCK = 16  # tokens whose matrices exist at the same time


def mesa_solved(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    log_decay: Tensor,
    ridge: Tensor,
    state: State | None = None,
) -> tuple[Tensor, State]:
    """Solve all systems by their Cholesky factors."""
    kk, kv = (None, None) if state is None else state
    written = beta[..., None] * k
    with torch.no_grad():
        factors = _factors(k, written, log_decay, ridge, kk)
        x = _solve(q, factors)
    applied, kk = gated_linear_attention(x, written, k, log_decay, kk)
    x = x + _Solve.apply(q - applied - ridge[:, None] * x, *factors)
    y, kv = gated_linear_attention(x, written, v, log_decay, kv)
    return y, (kk, kv)


def _factors(
    k: Float[Tensor, "B H T K"],
    written: Float[Tensor, "B H T K"],
    log_decay: Float[Tensor, "B H T"],
    ridge: Float[Tensor, "H K"],
    kk: Float[Tensor, "B H K K"] | None,
) -> list[Float[Tensor, "B H C K K"]]:
    """Return the Cholesky factor of every token's matrix, in blocks of C tokens."""
    diagonal = torch.diag_embed(ridge)[:, None]
    before = torch.zeros_like(k[:, :, 0, :, None] * k[:, :, 0, None]) if kk is None else kk
    factors = []
    for k_n, written_n, a_n in zip(*(s.split(BLOCK, dim=2) for s in (k, written, log_decay)), strict=True):
        left, since_start = decays(a_n)
        products = (written_n[..., :, None] * k_n[..., None, :]).flatten(-2)
        sums = (left @ products + since_start * before.flatten(-2)[..., None, :]).unflatten(
            -1, (k.shape[-1], -1)
        )
        before = sums[:, :, -1]
        factors.append(torch.linalg.cholesky_ex(sums + diagonal)[0])
    return factors


def _solve(
    b: Float[Tensor, "B H T K"], factors: Sequence[Float[Tensor, "B H C K K"]]
) -> Float[Tensor, "B H T K"]:
    blocks = zip(b[..., None].split(BLOCK, dim=2), factors, strict=True)
    return torch.cat([torch.cholesky_solve(b_n, factor) for b_n, factor in blocks], dim=2)[..., 0]


class _Solve(Function):
    """Compute A^{-1} b for a symmetric A that is held fixed."""

    generate_vmap_rule = True

    @staticmethod
    def forward(b: Tensor, *factors: Tensor) -> Tensor:  # pyright: ignore
        return _solve(b, factors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        del output
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore
        """Solve for the gradient, as A is symmetric."""
        return _solve(grad, ctx.saved_tensors), *[None] * len(ctx.saved_tensors)
