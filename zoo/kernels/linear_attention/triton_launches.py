"""The launches of `triton_scan`'s kernels: what each writes, its grid and how its programs are cut."""

# pyright: reportArgumentType=false, reportCallIssue=false
# what is decorated with triton.jit is no Python, and its arguments are not what Python takes them for

from typing import Any, NamedTuple

import torch
import triton
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.launching import by_time, launch_options, strided
from zoo.kernels.linear_attention.triton_backward import (
    _keys,
    _queries,
    _slopes,
    _states_back,
    _values,
)
from zoo.kernels.linear_attention.triton_forward import _outputs, _states
from zoo.kernels.tiles import power_of_two

CHUNK = 64  # tokens


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
    size = power_of_two(keys)
    if bits == 32:
        own = 32 if kernel in ("keys", "queries") else 16
        return Blocks(min(own, size), 32 if kernel == "queries" else 64, 16, 8, 2)
    if kernel in ("states", "states_back"):
        return Blocks(32, 64, 32, 4, 1 if size == 16 else 2)
    return Blocks(min(64, size), 64, 32, 4, 2)


def states_of(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, eps: float | None,
    kv: Tensor | None, z: Tensor | None,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor, Tensor | None]:  # fmt: skip
    """The last sums, the sums of log decays in each chunk, and the sums before it."""
    (B, H, T, K), V, N = q.shape, v.shape[-1], triton.cdiv(q.shape[2], CHUNK)
    last_kv, states = _float(q, K, V), q.new_empty(B, H, N, V, K)
    until = None if g is None else q.new_empty(B, H, T, dtype=torch.float64)
    last_z, z_states = (None, None) if eps is None else (_float(q, K), _float(q, N, K))
    cut = _blocks("states", q)
    _states[_blocks_of_state(q, v, cut)](
        *(*strided(k, v, g), _whole(kv), _whole(z)),
        *(states, z_states, until, last_kv, last_z, H, T),
        **_sizes(K, V, cut),
    )
    return last_kv, last_z, until, states, z_states


def outputs_of(
    q: Tensor, k: Tensor, v: Tensor, until: Tensor | None,
    states: Tensor, z_states: Tensor | None, eps: float | None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """y, and the denominators."""
    (B, H, T, K), V, N = q.shape, v.shape[-1], states.shape[2]
    y, total, cut = by_time(v), None if eps is None else _float(q, T), _blocks("outputs", q)
    _outputs[B * H, N, triton.cdiv(V, cut.values)](
        *(*strided(q, k, v), until, states, z_states, *strided(y), total),
        *(H, T, 0.0 if eps is None else eps),
        **_sizes(K, V, cut),
        OTHER=cut.other,
    )
    return y, total


def slopes_of(dy: Tensor, y: Tensor, total: Tensor) -> Float[Tensor, "B H T"]:
    B, H, T, V = y.shape
    slope, cut = torch.empty_like(total), _blocks("slopes", y)
    _slopes[B * H, triton.cdiv(T, CHUNK)](
        *(*strided(dy, y), total, slope, H, T),
        **{"V": V, "VS": cut.values, "CHUNK": CHUNK},
        **launch_options(cut.num_warps, cut.num_stages),
    )
    return slope


def states_back_of(
    q: Tensor, dy: Tensor, until: Tensor | None, total: Tensor | None, slope: Tensor | None,
    states: Tensor, last_dkv: Tensor | None, last_dz: Tensor | None,
) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:  # fmt: skip
    """The gradients of the sums before the first token, and of those after each chunk."""
    (_, H, T, K), V, N = q.shape, dy.shape[-1], states.shape[2]
    dkv, dstates, cut = _float(q, K, V), torch.empty_like(states), _blocks("states_back", q)
    dz, dz_states = (None, None) if total is None else (_float(q, K), _float(q, N, K))
    _states_back[_blocks_of_state(q, dy, cut)](
        *(*strided(q, dy), until, total, slope, _whole(last_dkv), _whole(last_dz)),
        *(dstates, dz_states, dkv, dz, H, T),
        **_sizes(K, V, cut),
    )
    return dkv, dz, dstates, dz_states


def values_of(
    q: Tensor, k: Tensor, v: Tensor, dy: Tensor, until: Tensor | None, total: Tensor | None, dstates: Tensor
) -> Tensor:
    (B, H, T, K), V, N = q.shape, v.shape[-1], dstates.shape[2]
    dv, cut = by_time(v), _blocks("values", q)
    _values[B * H, N, triton.cdiv(V, cut.values)](
        *(*strided(q, k, dy), until, total, dstates, *strided(dv), H, T),
        **_sizes(K, V, cut),
        OTHER=cut.other,
    )
    return dv


def keys_of(
    q: Tensor, k: Tensor, v: Tensor, dy: Tensor,
    until: Tensor | None, total: Tensor | None, slope: Tensor | None,
    dstates: Tensor, dz_states: Tensor | None, fading: bool,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    (B, H, T, K), V, N = q.shape, v.shape[-1], dstates.shape[2]
    dk, cut = by_time(k), _blocks("keys", q)
    parts = triton.cdiv(K, cut.keys)
    written = q.new_empty(parts, B, H, T, dtype=torch.float32) if fading else None
    _keys[B * H, N, parts](
        *(*strided(q, k, v, dy), until, total, slope),
        *(dstates, dz_states, *strided(dk), written, H, T),
        **_sizes(K, V, cut),
        OTHER=cut.other,
    )
    return dk, written


def queries_of(
    q: Tensor, k: Tensor, v: Tensor, dy: Tensor,
    until: Tensor | None, total: Tensor | None, slope: Tensor | None,
    states: Tensor, dstates: Tensor, z_states: Tensor | None, written: Tensor | None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """dq and dg, of which each block of keys has a part."""
    (B, H, T, K), V, N = q.shape, v.shape[-1], dstates.shape[2]
    dq, cut = by_time(q), _blocks("queries", q)
    dg = None if written is None else torch.empty_like(written)
    _queries[B * H, N, triton.cdiv(K, cut.keys)](
        *(*strided(q, k, v, dy), until, total, slope),
        *(states, dstates, z_states, *strided(dq), written, dg, H, T),
        **_sizes(K, V, cut),
        OTHER=cut.other,
    )
    return dq, None if dg is None else dg.sum(0)


def _float(q: Tensor, *shape: int) -> Tensor:
    """Empty, [B H *shape], in float32."""
    return q.new_empty(*q.shape[:2], *shape, dtype=torch.float32)


def _whole(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()


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
