"""Gated linear attention with a decay of each key channel and token, in chunks of 64 tokens, in Triton.

With G the sum of log decays in a chunk up to a token, which begins at 0 and ends at E, all [K], S the state
before the chunk, and a product of two [K] taken channel by channel:

    y_i = sum over j <= i in the chunk of w_ij v_j + (q_i exp(G_i)) S,
    w_ij = sum over channels of q_i k_j exp(G_i - G_j),   S' = exp(E) S + sum of (k_j exp(E - G_j)) v_j^T.

w is a product of matrices only where the decay comes apart into a factor of i and one of j.  It does at a cut
between them: the pairs within a block of 2 tokens, then those within one of 4 and not of 2, and so on to 64,
stand on the two sides of that block's middle.  With f the decay between a token and the middle of its block,
and x_i = q_i f_i after the middle, k_i f_i before it, their part of w is x x^T: six products in all.  (Yang
et al. 2024, arXiv 2312.06635, Section 4.3, have two levels, the lower one pair by pair.)  Every exponent is a
sum of log decays, never a difference of sums: a tree of the sums over 1, 2, ..., 64 tokens is made first, and
each level adds one of its nodes.  So none is positive, and none rounds worse than step by step.

Backward, with dS' the gradient of the state after a chunk, u_ij = dy_i v_j for i >= j, and u_ji = u_ij,

    dS = exp(E) dS' + sum of (q_i exp(G_i)) dy_i^T,
    dv_j = sum over i >= j of w_ij dy_i + (k_j exp(E - G_j)) dS',
    dq_i = u_ii k_i + exp(G_i) (S dy_i)      + f_i (u x)_i of the levels where i is after the middle,
    dk_j = u_jj q_j + exp(E - G_j) (dS' v_j) + f_j (u x)_j of the levels where j is before it,

u x being taken over a level's pairs.  The gradient of the log decay of step m sums what crosses the step: at
each level x_i (u x)_i of the tokens i that m lies between the middle and, then q_i exp(G_i) (S dy_i) of
i >= m, k_j exp(E - G_j) (dS' v_j) of j < m, and exp(E) (S dS' summed over V).  Each chunk sums its own from
the states at its two ends, so that no error grows along the sequence, and nothing large is subtracted.

The floor is bytes: q, k, v and y once, 2 K + 2 V numbers a token, and K log decays in float32; a token costs
4 K V + 64 (12 K + 2 V) FLOPs.  Kept for the backward pass: w, the tree, the states before each chunk, and q
and k as they meet those.

B batch, H heads, T time, K channels of a key, V of a value, N chunks.  q, k, v, dy and the log decays come
with the strides they have; the last must be 1.  Everything of one shape runs the same kernels with the same
grids, so that a call can be captured in a graph, and no sum depends on the order of programs.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.folding import Folding, Gradients
from zoo.kernels.gated_linear_attention.triton_channels_launches import (
    gradients_of,
    outputs_of,
    pairs_of,
    sums_of,
    walk_of,
    weights_of,
)
from zoo.kernels.precision import narrowest
from zoo.kernels.tiles import rows_last

WITHOUT_PRODUCTS = frozenset({"sums"})


def scan_by_channel(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    log_decay: Float[Tensor, "B H T K"],
    state: Float[Tensor, "B H K V"] | None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H K V"]]:
    """y in the narrowest dtype of q, k and v, in which products are made, and the state
    after the last token in float32."""
    y, last, *_ = _Scan.apply(*narrowest(q, k, v), log_decay, state)
    return y, last


class _Scan(Folding):
    """y, the last state, and what the backward pass wants: the tree of sums, the faded queries and keys, the
    weights, and the state before each chunk."""

    @staticmethod
    def forward(  # pyright: ignore
        q: Tensor, k: Tensor, v: Tensor, g: Tensor, state: Tensor | None
    ) -> tuple[Tensor, ...]:
        q, k, v, g = map(rows_last, (q, k, v, g))
        tree, starts, ends = sums_of(q, k, g)
        states, last = walk_of(ends, v, tree, state, back=False)
        weights = weights_of(q, k, tree)
        y = outputs_of(starts, weights, v, states, back=False)
        return y, last, tree, starts, ends, weights, states

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        q, k, v, g, state = inputs
        y, _, *kept = output
        del y
        ctx.mark_non_differentiable(*kept)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v, *kept)
        ctx.dtypes = [None if x is None else x.dtype for x in (g, state)]

    @staticmethod
    def backward(  # pyright: ignore
        ctx: Any, dy: Tensor | None, dlast: Tensor | None, *_: None
    ) -> tuple[Tensor | None, ...]:
        if dy is None and dlast is None:
            return (None,) * 5
        dy = torch.zeros_like(ctx.saved_tensors[2]) if dy is None else dy
        dq, dk, dv, dg, dstate = _Backward.apply(*ctx.saved_tensors, dy, dlast)
        decay, state = ctx.dtypes
        return dq, dk, dv, dg.to(decay), None if state is None else dstate.to(state)


class _Backward(Gradients):
    """dq, dk, dv, dg and dstate."""

    @staticmethod
    def forward(  # pyright: ignore
        q: Tensor, k: Tensor, v: Tensor,
        tree: Tensor, starts: Tensor, ends: Tensor, weights: Tensor, states: Tensor,
        dy: Tensor, dlast: Tensor | None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        q, k, v, dy = map(rows_last, (q, k, v, dy))
        tree, starts, ends, weights, states = (x.contiguous() for x in (tree, starts, ends, weights, states))
        dstates, dstate = walk_of(starts, dy, tree, dlast, back=True)
        dv = outputs_of(ends, weights, dy, dstates, back=True)
        dq, dk, dg = gradients_of(q, k, v, dy, tree, pairs_of(v, dy), states, dstates)
        return dq, dk, dv, dg, dstate
