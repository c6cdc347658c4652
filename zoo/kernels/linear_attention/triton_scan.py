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

# pyright: reportArgumentType=false, reportCallIssue=false
# what is decorated with triton.jit is no Python, and its arguments are not what Python takes them for

from typing import Any, NamedTuple

import torch
import triton
from jaxtyping import Float
from torch import Tensor
from torch.autograd import Function

from zoo.kernels.folding import fold, unfold
from zoo.kernels.launching import launch_options, unfit_here
from zoo.kernels.linear_attention.triton_backward import (
    _keys,
    _queries,
    _slopes,
    _states_back,
    _values,
)
from zoo.kernels.linear_attention.triton_forward import _outputs, _states
from zoo.kernels.tiles import power_of_two, rows_last

CHUNK = 64  # tokens
DTYPES = (torch.float32, torch.bfloat16)
WITHOUT_PRODUCTS = frozenset({"slopes"})


class Blocks(NamedTuple):
    """How one program is cut: channels of keys and of values at once, tokens of the chunk that pass by."""

    keys: int
    values: int
    other: int
    num_warps: int
    num_stages: int


def blocks(kernel: str, bits: int, keys: int) -> Blocks:
    """Static, so that a captured graph and a second run do the same.  keys: K.

    `python -m benchmarks.kernels_offline` says what each costs in registers; none may spill.
    """
    del kernel
    if bits == 32:
        return Blocks(min(32, power_of_two(keys)), 64, 16, 8, 2)
    return Blocks(min(64, power_of_two(keys)), 64, 64, 4, 2)


def scan(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    log_decay: Float[Tensor, "B H T"] | None,
    eps: float | None,
    kv: Float[Tensor, "B H K V"] | None,
    z: Float[Tensor, "B H K"] | None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H K V"], Float[Tensor, "B H K"] | None]:
    """y in the dtype of v, and S and z after the last token in float32; z is None where eps is.

    There may be a decay or a denominator (eps), not both.
    """
    y, last_kv, last_z, *_ = _Scan.apply(q, k, v, log_decay, eps, kv, None if eps is None else z)
    return y, last_kv, None if eps is None else last_z


def unfit_for_scan(q: Tensor, k: Tensor, v: Tensor, *sums: Tensor | None) -> str | None:
    """Why these inputs cannot go through the kernels, in words; None: they can."""
    if q.ndim != 4 or q.shape != k.shape or k.shape[:-1] != v.shape[:-1]:
        shapes = ", ".join(str(list(x.shape)) for x in (q, k, v))
        return f"q, k and v must be [B H T K], [B H T K] and [B H T V], and are {shapes}"
    if not q.dtype == k.dtype == v.dtype or q.dtype not in DTYPES:
        return f"q, k and v must all be float32 or bfloat16, and are {q.dtype}, {k.dtype} and {v.dtype}"
    if any(x is not None and x.dtype not in DTYPES for x in sums):
        return f"log decays and sums must be float32 or bfloat16, and are {', '.join(_dtypes(sums))}"
    return unfit_here(q)


def _dtypes(sums: tuple[Tensor | None, ...]) -> list[str]:
    return [str(x.dtype) for x in sums if x is not None]


class _Scan(Function):
    """y, the last sums, and what the backward pass wants: sums of log decays, totals, and the
    sums before each chunk.  What is there only for a decay or a denominator is [B 0] where there is none.
    """

    @staticmethod
    def forward(  # pyright: ignore
        q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, eps: float | None,
        kv: Tensor | None, z: Tensor | None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        q, k, v = map(rows_last, (q, k, v))
        (B, H, T, K), V, N = q.shape, v.shape[-1], triton.cdiv(q.shape[2], CHUNK)
        y, last_kv, states = by_time(v), _float(q, K, V), q.new_empty(B, H, N, V, K)
        last_z = z_states = total = until = None
        if g is not None:
            until = q.new_empty(B, H, T, dtype=torch.float64)
        if eps is not None:
            last_z, z_states, total = _float(q, K), _float(q, N, K), _float(q, T)
        cut = _blocks("states", q)
        _states[_blocks_of_state(q, v, cut)](
            *(*_args(k), *_args(v), *_args(g), _whole(kv), _whole(z)),
            *(states, z_states, until, last_kv, last_z, H, T),
            **_sizes(K, V, cut),
        )
        cut = _blocks("outputs", q)
        _outputs[B * H, N, triton.cdiv(V, cut.values)](
            *(*_args(q), *_args(k), *_args(v), until, states, z_states, *_args(y), total),
            *(H, T, 0.0 if eps is None else eps),
            **_sizes(K, V, cut),
            OTHER=cut.other,
        )
        made = (last_z, until, total, z_states)
        return y, last_kv, *(q.new_empty(B, 0) if x is None else x for x in made), states

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

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *inputs: Any) -> tuple:  # pyright: ignore
        outputs = _Scan.apply(*fold(info.batch_size, in_dims, inputs))
        return unfold(info.batch_size, outputs), (0,) * len(outputs)


class _Backward(Function):
    """dq, dk, dv, dg, dkv and dz.  A Function of its own, so that it has a batching rule too.

    fading: dg is wanted.  What is not there is [B 0].
    """

    @staticmethod
    def forward(  # pyright: ignore
        q: Tensor, k: Tensor, v: Tensor, y: Tensor,
        until: Tensor, total: Tensor, z_states: Tensor, states: Tensor,
        dy: Tensor, last_dkv: Tensor | None, last_dz: Tensor | None, fading: bool,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        q, k, v, y, dy = map(rows_last, (q, k, v, y, dy))
        fade, n, z = (x.contiguous() if x.numel() else None for x in (until, total, z_states))
        slope = None if n is None else _slopes_of(dy, y, n)
        dkv, dz, dstates, dz_states = _through_time(q, dy, fade, n, slope, states, last_dkv, last_dz)
        dv = _values_of(q, k, v, dy, fade, n, dstates)
        dk, written = _keys_of(q, k, v, dy, fade, n, slope, dstates, dz_states, fading)
        dq, dg = _queries_of(q, k, v, dy, fade, n, slope, states, dstates, z, written)
        return dq, dk, dv, *(q.new_empty(q.shape[0], 0) if x is None else x for x in (dg, dkv, dz))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        del ctx, inputs, output

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> None:  # pyright: ignore
        raise NotImplementedError("linear attention in Triton has first derivatives only: kernels=reference.")

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *inputs: Any) -> tuple:  # pyright: ignore
        grads = _Backward.apply(*fold(info.batch_size, in_dims, inputs))
        return unfold(info.batch_size, grads), (0,) * len(grads)


def _slopes_of(dy: Tensor, y: Tensor, total: Tensor) -> Float[Tensor, "B H T"]:
    B, H, T, V = y.shape
    slope, cut = torch.empty_like(total), _blocks("slopes", y)
    _slopes[B * H, triton.cdiv(T, CHUNK)](
        *(*_args(dy), *_args(y), total, slope, H, T),
        **{"V": V, "VS": cut.values, "CHUNK": CHUNK},
        **launch_options(cut.num_warps, cut.num_stages),
    )
    return slope


def _through_time(
    q: Tensor, dy: Tensor, until: Tensor | None, total: Tensor | None, slope: Tensor | None,
    states: Tensor, last_dkv: Tensor | None, last_dz: Tensor | None,
) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:  # fmt: skip
    """The gradients of the sums before the first token, and of those after each chunk."""
    (_, H, T, K), V, N = q.shape, dy.shape[-1], states.shape[2]
    dkv, dstates, cut = _float(q, K, V), torch.empty_like(states), _blocks("states_back", q)
    dz, dz_states = (None, None) if total is None else (_float(q, K), _float(q, N, K))
    _states_back[_blocks_of_state(q, dy, cut)](
        *(*_args(q), *_args(dy), until, total, slope, _whole(last_dkv), _whole(last_dz)),
        *(dstates, dz_states, dkv, dz, H, T),
        **_sizes(K, V, cut),
    )
    return dkv, dz, dstates, dz_states


def _values_of(
    q: Tensor, k: Tensor, v: Tensor, dy: Tensor, until: Tensor | None, total: Tensor | None, dstates: Tensor
) -> Tensor:
    (B, H, T, K), V, N = q.shape, v.shape[-1], dstates.shape[2]
    dv, cut = by_time(v), _blocks("values", q)
    _values[B * H, N, triton.cdiv(V, cut.values)](
        *(*_args(q), *_args(k), *_args(dy), until, total, dstates, *_args(dv), H, T),
        **_sizes(K, V, cut),
        OTHER=cut.other,
    )
    return dv


def _keys_of(
    q: Tensor, k: Tensor, v: Tensor, dy: Tensor,
    until: Tensor | None, total: Tensor | None, slope: Tensor | None,
    dstates: Tensor, dz_states: Tensor | None, fading: bool,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    (B, H, T, K), V, N = q.shape, v.shape[-1], dstates.shape[2]
    dk, cut = by_time(k), _blocks("keys", q)
    parts = triton.cdiv(K, cut.keys)
    written = q.new_empty(parts, B, H, T, dtype=torch.float32) if fading else None
    _keys[B * H, N, parts](
        *(*_args(q), *_args(k), *_args(v), *_args(dy), until, total, slope),
        *(dstates, dz_states, *_args(dk), written, H, T),
        **_sizes(K, V, cut),
        OTHER=cut.other,
    )
    return dk, written


def _queries_of(
    q: Tensor, k: Tensor, v: Tensor, dy: Tensor,
    until: Tensor | None, total: Tensor | None, slope: Tensor | None,
    states: Tensor, dstates: Tensor, z_states: Tensor | None, written: Tensor | None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """dq and dg, of which each block of keys has a part."""
    (B, H, T, K), V, N = q.shape, v.shape[-1], dstates.shape[2]
    dq, cut = by_time(q), _blocks("queries", q)
    dg = None if written is None else torch.empty_like(written)
    _queries[B * H, N, triton.cdiv(K, cut.keys)](
        *(*_args(q), *_args(k), *_args(v), *_args(dy), until, total, slope),
        *(states.contiguous(), dstates, z_states, *_args(dq), written, dg, H, T),
        **_sizes(K, V, cut),
        OTHER=cut.other,
    )
    return dq, None if dg is None else dg.sum(0)


def by_time(x: Float[Tensor, "B H T C"]) -> Float[Tensor, "B H T C"]:
    """Empty, with the heads of a token side by side in memory: what comes before and after has them so."""
    batch, heads, length, size = x.shape
    return x.new_empty(batch, length, heads, size).transpose(1, 2)


def _float(q: Tensor, *shape: int) -> Tensor:
    """Empty, [B H *shape], in float32."""
    return q.new_empty(*q.shape[:2], *shape, dtype=torch.float32)


def _whole(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()


def _args(x: Tensor | None) -> tuple[Any, ...]:
    """[B H T ...] or None, as kernels take it: with three strides."""
    return (None, 0, 0, 0) if x is None else (x, *x.stride()[:3])


def _blocks(kernel: str, q: Tensor) -> Blocks:
    return blocks(kernel, 8 * q.element_size(), q.shape[-1])


def _blocks_of_state(q: Tensor, v: Tensor, cut: Blocks) -> tuple[int, int, int]:
    """The grid of what walks through time."""
    return (
        q.shape[0] * q.shape[1],
        triton.cdiv(q.shape[-1], cut.keys),
        triton.cdiv(v.shape[-1], cut.values),
    )


def _sizes(K: int, V: int, cut: Blocks) -> dict[str, Any]:
    return {
        **{"K": K, "V": V, "KS": cut.keys, "VS": cut.values, "CHUNK": CHUNK},
        **launch_options(cut.num_warps, cut.num_stages),
    }
