"""The launches of `triton_channels`' kernels: what each writes, its grid and how its programs are cut."""

# pyright: reportArgumentType=false, reportCallIssue=false
# what is decorated with triton.jit is no Python, and its arguments are not what Python takes them for

from typing import Any, NamedTuple

import torch
import triton
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.gated_linear_attention.triton_channels_backward import _gradients, _pairs
from zoo.kernels.gated_linear_attention.triton_channels_forward import _outputs, _sums, _walk, _weights
from zoo.kernels.launching import by_time, launch_options, strided
from zoo.kernels.tiles import power_of_two

CHUNK = 64  # tokens: the rows of one product on Hopper
LEVELS = CHUNK.bit_length() - 1


class Blocks(NamedTuple):
    """How one program is cut: channels of keys and of values at once, at most; 0 of what it has none of."""

    keys: int
    values: int
    num_warps: int
    num_stages: int


CUTS = {  # bits of a factor -> kernel
    16: {
        "sums": Blocks(32, 0, 8, 1),
        "walk": Blocks(32, 64, 8, 2),
        "weights": Blocks(32, 0, 8, 1),
        "outputs": Blocks(64, 64, 4, 2),
        "pairs": Blocks(0, 64, 4, 2),
        "gradients": Blocks(32, 64, 8, 1),
    },
    32: {
        "sums": Blocks(32, 0, 4, 1),
        "walk": Blocks(16, 64, 8, 2),
        "weights": Blocks(16, 0, 8, 1),
        "outputs": Blocks(32, 32, 8, 2),
        "pairs": Blocks(0, 32, 8, 2),
        "gradients": Blocks(16, 16, 8, 1),
    },
}


def blocks(kernel: str, bits: int) -> Blocks:
    """Static, so that a captured graph and a second run do the same.

    `python -m benchmarks.kernels_offline` says what each costs in registers; none may spill.
    """
    return CUTS[bits][kernel]


def sums_of(
    q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H T K"], g: Float[Tensor, "B H T K"]
) -> tuple[Float[Tensor, "B H N 2*CHUNK K"], Float[Tensor, "B H T K"], Float[Tensor, "B H T K"]]:
    """Each chunk's tree of sums of g, q faded from the chunk's start, and k to its end."""
    B, H, T, K = q.shape
    tree = q.new_empty(B, H, _chunks(T), 2 * CHUNK, K, dtype=torch.float32)
    starts, ends = (x.new_empty(x.shape) for x in (q, k))
    cut = _cut("sums", q)
    _sums[B * H, _chunks(T), triton.cdiv(K, cut.keys)](
        *(*strided(q, k, g), tree, starts, ends, H, T),
        **{"K": K, "KS": cut.keys, "CHUNK": CHUNK, "LEVELS": LEVELS},
        **launch_options(cut.num_warps, cut.num_stages),
    )
    return tree, starts, ends


def walk_of(
    x: Float[Tensor, "B H T K"],
    y: Float[Tensor, "B H T V"],
    tree: Float[Tensor, "B H N 2*CHUNK K"],
    start: Float[Tensor, "B H K V"] | None,
    back: bool,
) -> tuple[Float[Tensor, "B H N V K"], Float[Tensor, "B H K V"]]:
    """The state before each chunk and after the last; back: its gradient after each and before the first."""
    (B, H, T, K), V = x.shape, y.shape[-1]
    states = x.new_empty(B, H, _chunks(T), V, K)
    end = x.new_empty(B, H, K, V, dtype=torch.float32)
    cut = _cut("walk", x, V)
    _walk[B * H, triton.cdiv(K, cut.keys), triton.cdiv(V, cut.values)](
        *(x, *strided(y), tree, None if start is None else start.contiguous(), states, end, H, T),
        **_sizes(K, V, cut),
        BACK=back,
    )
    return states, end


def weights_of(
    q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H T K"], tree: Float[Tensor, "B H N 2*CHUNK K"]
) -> Float[Tensor, "B H N CHUNK CHUNK"]:
    """By how much each token reads each of its chunk up to itself."""
    B, H, T, K = q.shape
    weights, cut = q.new_empty(B, H, _chunks(T), CHUNK, CHUNK), _cut("weights", q)
    _weights[B * H, _chunks(T)](
        *(*strided(q, k), tree, weights, H, T),
        **{"K": K, "KS": cut.keys, "CHUNK": CHUNK, "LEVELS": LEVELS},
        **launch_options(cut.num_warps, cut.num_stages),
    )
    return weights


def outputs_of(
    x: Float[Tensor, "B H T K"],
    weights: Float[Tensor, "B H N CHUNK CHUNK"],
    v: Float[Tensor, "B H T V"],
    states: Float[Tensor, "B H N V K"],
    back: bool,
) -> Float[Tensor, "B H T V"]:
    """y from the faded queries, the values and the states; back: dv from keys, dy and their gradients."""
    (B, H, T, K), V = x.shape, v.shape[-1]
    y, cut = by_time(v), _cut("outputs", x, V)
    _outputs[B * H, _chunks(T), triton.cdiv(V, cut.values)](
        *(x, weights, *strided(v), states, *strided(y), H, T),
        **_sizes(K, V, cut),
        BACK=back,
    )
    return y


def pairs_of(v: Float[Tensor, "B H T V"], dy: Float[Tensor, "B H T V"]) -> Tensor:
    """[B H N CHUNK CHUNK], symmetric: the gradients of the weights."""
    B, H, T, V = v.shape
    pairs, cut = v.new_empty(B, H, _chunks(T), CHUNK, CHUNK), _cut("pairs", v, V)
    _pairs[B * H, _chunks(T)](
        *(*strided(v, dy), pairs, H, T),
        **{"V": V, "VS": cut.values, "CHUNK": CHUNK},
        **launch_options(cut.num_warps, cut.num_stages),
    )
    return pairs


def gradients_of(
    q: Tensor, k: Tensor, v: Tensor, dy: Tensor,
    tree: Tensor, pairs: Tensor, states: Tensor, dstates: Tensor,
) -> tuple[Float[Tensor, "B H T K"], Float[Tensor, "B H T K"], Float[Tensor, "B H T K"]]:  # fmt: skip
    """dq, dk and, in float32, dg."""
    (B, H, T, K), V, cut = q.shape, v.shape[-1], _cut("gradients", q, v.shape[-1])
    dq, dk = by_time(q), by_time(k)
    dg = torch.empty_like(dq, dtype=torch.float32)
    _gradients[B * H, _chunks(T), triton.cdiv(K, cut.keys)](
        *(*strided(q, k, v, dy), tree, pairs, states, dstates),
        *(*strided(dq, dk, dg), H, T),
        **_sizes(K, V, cut),
        LEVELS=LEVELS,
    )
    return dq, dk, dg


def _chunks(length: int) -> int:
    return triton.cdiv(length, CHUNK)


def _cut(kernel: str, keys: Tensor, values: int = 0) -> Blocks:
    """No larger than the next power of two above what is there."""
    cut = blocks(kernel, 8 * keys.element_size())
    return cut._replace(
        keys=min(cut.keys, power_of_two(keys.shape[-1])), values=min(cut.values, power_of_two(values))
    )


def _sizes(K: int, V: int, cut: Blocks) -> dict[str, Any]:
    return {
        **{"K": K, "V": V, "KS": cut.keys, "VS": cut.values, "CHUNK": CHUNK},
        **launch_options(cut.num_warps, cut.num_stages),
    }
