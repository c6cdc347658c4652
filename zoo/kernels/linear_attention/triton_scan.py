"""Linear attention in chunks, with a decay or a denominator, in Triton: what both ops' kernels are.

With s_ij = q_i k_j, G the sum of log decays, d_ij = exp(G_i - G_j), S the state before a chunk, which begins
at G = 0 and ends at G = E, and n_i = q_i z_i + eps (where there is no denominator, 1):

    y_i = (sum over j <= i in the chunk of d_ij s_ij v_j + exp(G_i) q_i S) / n_i,
    S' = exp(E) S + sum of exp(E - G_j) k_j v_j^T,   z' = z + sum of k_j.

One pass writes S before every chunk, one after the other, each program a block of it; another computes all
chunks at once.  Backward the same: dS after every chunk, from the last to the first,

    dS = exp(E) dS' + sum of exp(G_i) q_i dy_i^T / n_i,   dz = dz' + sum of m_i q_i,   m_i = -dy_i y_i / n_i,

and then, with p_ij = dy_i v_j / n_i + m_i, in each chunk

    dv_j = sum over i >= j of d_ij s_ij dy_i / n_i + exp(E - G_j) k_j dS',
    dq_i = sum over j <= i of d_ij p_ij k_j + exp(G_i) S dy_i / n_i + m_i z,
    dk_j = sum over i >= j of d_ij p_ij q_i + exp(E - G_j) dS' v_j + dz',
    d log_decay_m = the sum of d_ij p_ij s_ij over i >= m > j, of q_i times what it had from S over i >= m,
        of k_j times what it had from dS' over j < m, and of exp(E) S dS'.

No more than sums of log decays, which are not positive, is ever exponentiated.  The floor is bytes: q, k, v
and y once, 2 K + 2 V numbers a token, and the states twice, 2 K V a chunk of 64 tokens; a token costs
4 K V + 128 (K + V) FLOPs.

B batch, H heads, T time, K channels of a key, V of a value.  q, k, v, dy and the log decays come with the
strides they have; all but the decays' last must be 1.  Everything of one shape runs the same kernels with the
same grids, so that a call can be captured in a graph, and no sum depends on the order of programs.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.folding import Folding, Gradients
from zoo.kernels.launching import unfit_here
from zoo.kernels.linear_attention.triton_launches import (
    keys_of,
    outputs_of,
    queries_of,
    slopes_of,
    states_back_of,
    states_of,
    values_of,
)
from zoo.kernels.precision import narrowest
from zoo.kernels.tiles import rows_last

DTYPES = (torch.float32, torch.bfloat16)
WITHOUT_PRODUCTS = frozenset({"slopes"})


def scan(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    log_decay: Float[Tensor, "B H T"] | None,
    eps: float | None,
    kv: Float[Tensor, "B H K V"] | None,
    z: Float[Tensor, "B H K"] | None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H K V"], Float[Tensor, "B H K"] | None]:
    """y in the narrowest dtype of q, k and v, in which products are made, and S and z after the last token in
    float32; z is None where eps is.

    There may be a decay or a denominator (eps), not both.
    """
    q, k, v = narrowest(q, k, v)
    y, last_kv, last_z, *_ = _Scan.apply(q, k, v, log_decay, eps, kv, None if eps is None else z)
    return y, last_kv, None if eps is None else last_z


def unfit_for_scan(q: Tensor, k: Tensor, v: Tensor, *sums: Tensor | None) -> str | None:
    """Why these inputs cannot go through the kernels, in words; None: they can."""
    if q.ndim != 4 or q.shape != k.shape or k.shape[:-1] != v.shape[:-1]:
        shapes = ", ".join(str(list(x.shape)) for x in (q, k, v))
        return f"q, k and v must be [B H T K], [B H T K] and [B H T V], and are {shapes}"
    if any(x.dtype not in DTYPES for x in (q, k, v)):
        return f"q, k and v must be float32 or bfloat16, and are {q.dtype}, {k.dtype} and {v.dtype}"
    if any(x is not None and x.dtype not in DTYPES for x in sums):
        return f"log decays and sums must be float32 or bfloat16, and are {', '.join(_dtypes(sums))}"
    return unfit_here(q)


def _dtypes(sums: tuple[Tensor | None, ...]) -> list[str]:
    return [str(x.dtype) for x in sums if x is not None]


class _Scan(Folding):
    """y, the last sums, and what the backward pass wants: sums of log decays, totals, and the sums before
    each chunk.  What is there only for a decay or a denominator is [B 0] where there is none.
    """

    @staticmethod
    def forward(  # pyright: ignore
        q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, eps: float | None,
        kv: Tensor | None, z: Tensor | None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        q, k, v = map(rows_last, (q, k, v))
        last_kv, last_z, until, states, z_states = states_of(q, k, v, g, eps, kv, z)
        y, total = outputs_of(q, k, v, until, states, z_states, eps)
        made = (last_z, until, total, z_states)
        return y, last_kv, *(q.new_empty(q.shape[0], 0) if x is None else x for x in made), states

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        q, k, v, g, eps, kv, z = inputs
        y, _, last_z, *kept = output
        ctx.mark_non_differentiable(*kept, *([last_z] if eps is None else []))
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v, y, *kept)
        ctx.dtypes = [None if x is None else x.dtype for x in (g, kv, z)]

    @staticmethod
    def backward(  # pyright: ignore
        ctx: Any, dy: Tensor | None, dkv: Tensor | None, dz: Tensor | None, *_: None
    ) -> tuple[Tensor | None, ...]:
        if dy is None and dkv is None and dz is None:
            return (None,) * 7
        dy = torch.zeros_like(ctx.saved_tensors[3]) if dy is None else dy
        fading = ctx.dtypes[0] is not None and ctx.needs_input_grad[3]
        dq, dk, dv, *rest = _Backward.apply(*ctx.saved_tensors, dy, dkv, dz, fading)
        dg, dkv, dz = (None if t is None else x.to(t) for x, t in zip(rest, ctx.dtypes, strict=True))
        return dq, dk, dv, dg if fading else None, None, dkv, dz


class _Backward(Gradients):
    """dq, dk, dv, dg, dkv and dz.

    fading: dg is wanted.  What is not there is [B 0].
    """

    @staticmethod
    def forward(  # pyright: ignore
        q: Tensor, k: Tensor, v: Tensor, y: Tensor,
        until: Tensor, total: Tensor, z_states: Tensor, states: Tensor,
        dy: Tensor, last_dkv: Tensor | None, last_dz: Tensor | None, fading: bool,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        q, k, v, y, dy, states = *map(rows_last, (q, k, v, y, dy)), states.contiguous()
        fade, n, z = (x.contiguous() if x.numel() else None for x in (until, total, z_states))
        slope = None if n is None else slopes_of(dy, y, n)
        dkv, dz, dstates, dz_states = states_back_of(q, dy, fade, n, slope, states, last_dkv, last_dz)
        dv = values_of(q, k, v, dy, fade, n, dstates)
        dk, written = keys_of(q, k, v, dy, fade, n, slope, dstates, dz_states, fading)
        dq, dg = queries_of(q, k, v, dy, fade, n, slope, states, dstates, z, written)
        return dq, dk, dv, *(q.new_empty(q.shape[0], 0) if x is None else x for x in (dg, dkv, dz))
