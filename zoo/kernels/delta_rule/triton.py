"""The delta rule in Triton, in chunks of 64 writes or 32: an inverse for each, then one walk along them.

In a chunk that starts from S, with D_ij = exp of the sum of log_decay over (j, i] for i >= j, e_i = D of the
sum up to i, l_j = D of the sum after j, and E = D of the whole sum, the values that are written are

    X = (I + A)^-1 R,   A = strict_tril(diag(beta) K K^T * D),   R = diag(beta) (V - diag(e) K S),

the answers diag(e) Q S + P X with P = tril(Q K^T * D), and the next chunk starts from E S + K^T diag(l) X
(Yang et al. 2024, arXiv 2406.06484, Section 3; with decay arXiv 2412.06464, Section 3.3).  The inverse does
not need S: all chunks are inverted at once (`_invert`), then one loop carries S (`_walk`, alone in waiting
for the chunk before), then all chunks answer at once (`_read`).  Kept for the backward pass: the inverses, X
and the S that each chunk starts from, 64 + V + K V / 64 numbers a write.  With dS' the gradient of the state
after a chunk,

    dX = P^T dY + diag(l) K dS',   dR = (I + A)^-T dX,   dA = -strict_tril(dR X^T),   dP = tril(dY X^T),
    dS = E dS' + Q^T diag(e) dY - K^T diag(beta e) dR,

`_pull` makes P^T dY, `_walk_back` dR, dV and dS, `_queries` and `_keys` the rest chunk by chunk.  A decay's
gradient is the sum over all exponents that it is a part of; sums are formed one by one, never as differences.

Where a query reads after every n-th write only, it stands at that write, and the rows between have none.

The inverse, X = (I + A)^-1 R and all sums are in float32 whatever the inputs are; with factors in bfloat16
X, S and their gradients are rounded for the products that follow.  A write takes 2 (2 K V + 64 (K + V)) FLOP
forward and about three times that backward; the bytes that must move are those of the inputs and outputs.

B batch, H heads, T queries, n writes each, K channels of q and k, V of a value.  Tensors come with the
strides they have; the last of q, k and v must be 1.
"""

# pyright: reportArgumentType=false, reportCallIssue=false
# what is decorated with triton.jit is no Python, and its arguments are not what Python takes them for

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import torch
import triton
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.delta_rule import triton_backward, triton_forward
from zoo.kernels.folding import Folding, Gradients
from zoo.kernels.launching import by_time, launch_options, strided, unfit_here
from zoo.kernels.tiles import hopper, power_of_two, rows_last

WITHOUT_PRODUCTS: frozenset[str] = frozenset()  # kernels that have no use for tensor cores
DTYPES = (torch.float32, torch.bfloat16)
WIDEST = 128  # channels of a key: the walk holds K rows of the state in registers


CUTS = {  # bits of a factor -> kernel -> at most so many channels and columns at once, warps, stages
    16: {
        "invert": (64, 64, 4, 2),
        "walk": (64, 32, 4, 2),
        "read": (64, 64, 4, 2),
        "pull": (64, 64, 8, 2),
        "walk_back": (64, 32, 4, 2),
        "queries": (64, 64, 8, 2),
        "keys": (32, 64, 8, 2),
    },
    32: {
        "invert": (32, 32, 4, 1),
        "walk": (64, 16, 4, 1),
        "read": (32, 32, 8, 2),
        "pull": (16, 32, 8, 2),
        "walk_back": (64, 16, 4, 1),
        "queries": (16, 16, 4, 1),
        "keys": (16, 16, 8, 1),
    },
}


class Blocks(NamedTuple):
    """How one program is cut: channels of a key and columns of a value at once."""

    keys: int
    values: int
    num_warps: int
    num_stages: int


def blocks(kernel: str, bits: int, channels: int, width: int) -> Blocks:
    """Static, so that a captured graph and a second run do the same.

    `python -m benchmarks.kernels_offline` says what each costs in registers; none may spill.
    """
    keys, values, num_warps, num_stages = CUTS[bits][kernel]
    if kernel in ("walk", "walk_back") and not hopper():
        values = 16  # 32 of a ragged matrix do not fit in the registers
    return Blocks(min(channels, keys), min(width, values), num_warps, num_stages)


def chunk_of(bits: int) -> int:
    """Writes: 64, the rows of one product on Hopper; before, 64 of float32 do not fit in the registers."""
    return 64 if bits == 16 or hopper() else 32


def delta_rule_triton(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H n*T K"],
    v: Float[Tensor, "B H n*T V"],
    beta: Float[Tensor, "B H n*T"],
    log_decay: Float[Tensor, "B H n*T"] | None = None,
    state: Float[Tensor, "B H K V"] | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H K V"]]:
    """As delta_rule_reference; y has the dtype of v, to which q and k are rounded, the last state float32.

    Under autocast a mixer normalises q and k in float32 and has v in bfloat16: its products are in bfloat16.
    """
    q, k, v = (rows_last(x.to(v.dtype)) for x in (q, k, v))
    y, last, *_ = _DeltaRule.apply(q, k, v, beta, log_decay, state)
    return y, last


def unfit(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    log_decay: Tensor | None = None,
    state: Tensor | None = None,
) -> str | None:
    """Why these inputs cannot go through the kernels, in words; None: they can."""
    dtypes = {x.dtype for x in (q, k, v, beta, log_decay, state) if x is not None}
    if not dtypes <= set(DTYPES):
        return f"all inputs must be float32 or bfloat16, and are {', '.join(sorted(map(str, dtypes)))}"
    if k.shape[-1] > WIDEST:
        return f"head_dim of the keys (={k.shape[-1]}) must be at most {WIDEST}"
    return unfit_here(q)


def cases(few: bool) -> Iterator[tuple[str, torch.dtype, Callable[[], None]]]:
    """Calls that reach every kernel in every configuration, on "meta"; few: a quick choice of them."""
    sizes = [(64, 64)] if few else [(16, 16), (16, 33), (32, 64), (64, 64), (128, 128)]
    for (channels, width), dtype in product(sizes, DTYPES):
        whole = torch.empty(4, 2048, 16, 2 * channels + width, dtype=dtype, device="meta").transpose(1, 2)
        numbers = torch.empty(2, 4, 2048, 16, device="meta").transpose(2, 3)
        state = torch.empty(4, 16, channels, width, device="meta")
        inputs = (*whole.split([channels, channels, width], -1), *numbers.unbind(0), state)
        q, *others = (x.requires_grad_() for x in inputs)
        yield f"K {channels}, V {width}", dtype, partial(_both_ways, q, *others)
        if (channels, width) == (64, 64) and not few:
            yield "K 64, V 64, no decay", dtype, partial(_both_ways, q, *others[:3])
            yield "K 64, V 64, n 2", dtype, partial(_both_ways, q[:, :, ::2], *others)


def _both_ways(*inputs: Tensor) -> None:
    y, last = delta_rule_triton(*inputs)
    (y.sum() + last.sum()).backward()


class _DeltaRule(Folding):
    @staticmethod
    def forward(  # pyright: ignore
        q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor | None, state: Tensor | None
    ) -> tuple[Tensor, ...]:
        heads, (K, V) = k.shape[0] * k.shape[1], (k.shape[-1], v.shape[-1])
        chunk, shape = chunk_of(8 * v.element_size()), k.shape[1:3]
        count = triton.cdiv(k.shape[2], chunk)
        inverses = k.new_empty(*k.shape[:3], chunk, dtype=torch.float32)
        starts, written = k.new_empty(*k.shape[:2], count, K, V, dtype=v.dtype), v.new_empty(v.shape)
        y, last = by_time(q, V), k.new_empty(*k.shape[:2], K, V, dtype=torch.float32)
        rates = strided(beta)
        sums = k.new_empty(*k.shape[:2], k.shape[2] * (log_decay is not None), dtype=torch.float64)
        cut = _cut("invert", k, v)
        triton_forward._invert[heads, count](
            *(*strided(k), *rates, *strided(log_decay), inverses, _some(sums), *shape),
            K=K,
            KEYS=cut.keys,
            CHUNK=chunk,
            **_options(cut),
        )
        cut = _cut("walk", k, v)
        triton_forward._walk[heads, triton.cdiv(V, cut.values)](
            *(*strided(k, v), *rates, _some(sums)),
            *(None if state is None else state.contiguous(), inverses, starts, written, last, *shape),
            **{"K": K, "KEYS": cut.keys, "V": V, "VALUES": cut.values, "CHUNK": chunk},
            **_options(cut),
        )
        cut = _cut("read", k, v)
        triton_forward._read[heads, count, triton.cdiv(V, cut.values)](
            *(*strided(q, k, y), _some(sums), starts, written, *shape),
            **_sizes(q, k, v, cut),
        )
        return y, last, inverses, starts, written, sums

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.dtypes = tuple(None if x is None else x.dtype for x in inputs[4:])
        ctx.mark_non_differentiable(*output[2:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[:4], *output[2:])

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, dlast: Tensor | None, *_: Any) -> tuple:  # pyright: ignore
        q, v = ctx.saved_tensors[0], ctx.saved_tensors[2]
        if dy is None:
            dy = v.new_zeros(*q.shape[:3], v.shape[-1])
        *grads, dlogs, dstate = _Backward.apply(*ctx.saved_tensors, dy, dlast)
        others = zip((dlogs, dstate), ctx.dtypes, strict=True)
        return *grads, *(None if dtype is None else x.to(dtype) for x, dtype in others)


class _Backward(Gradients):
    @staticmethod
    def forward(  # pyright: ignore
        q: Tensor, k: Tensor, v: Tensor, beta: Tensor,
        inverses: Tensor, starts: Tensor, written: Tensor, sums: Tensor, dy: Tensor, dlast: Tensor | None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        heads, V, (count, K) = k.shape[0] * k.shape[1], v.shape[-1], starts.shape[2:4]
        rates, shape, dy = strided(beta), k.shape[1:3], rows_last(dy)
        dq, dk, dv = (by_time(x) for x in (q, k, v))
        derrors, dstarts, dends = (torch.empty_like(x) for x in (written, starts, starts))
        dbeta, dread, dlogs = (k.new_empty(k.shape[:3], dtype=torch.float32) for _ in range(3))
        dstate = k.new_empty(*k.shape[:2], K, V, dtype=torch.float32)
        cut = _cut("pull", k, v)
        triton_backward._pull[heads, count, triton.cdiv(V, cut.values)](
            *(*strided(q, k, dy), _some(sums), derrors, dstarts, *shape),
            **_sizes(q, k, v, cut),
        )
        cut = _cut("walk_back", k, v)
        triton_backward._walk_back[heads, triton.cdiv(V, cut.values)](
            *(*strided(k), *rates, _some(sums), inverses, None if dlast is None else dlast.contiguous()),
            *(derrors, dstarts, dends, *strided(dv), dstate, *shape),
            **{"K": K, "KEYS": cut.keys, "V": V, "VALUES": cut.values, "CHUNK": inverses.shape[-1]},
            **_options(cut),
        )
        cut = _cut("queries", k, v)
        triton_backward._queries[heads, count](
            *(*strided(q, k, dy), _some(sums), starts, written, *strided(dq), dread, *shape),
            **_sizes(q, k, v, cut),
        )
        cut = _cut("keys", k, v)
        triton_backward._keys[heads, count](
            *(*strided(q, k, v, dy), *rates, _some(sums)),
            *(starts, written, derrors, dends, dread, *strided(dk), dbeta, dlogs, *shape),
            **_sizes(q, k, v, cut),
        )
        return dq, dk, dv, dbeta.to(beta.dtype), dlogs, dstate


def _some(x: Tensor) -> Tensor | None:
    return x if x.numel() else None


def _cut(kernel: str, k: Tensor, v: Tensor) -> Blocks:
    return blocks(kernel, 8 * v.element_size(), power_of_two(k.shape[-1]), power_of_two(v.shape[-1]))


def _options(cut: Blocks) -> dict[str, Any]:
    return launch_options(cut.num_warps, cut.num_stages)


def _sizes(q: Tensor, k: Tensor, v: Tensor, cut: Blocks) -> dict[str, Any]:
    return {
        **{"K": k.shape[-1], "KEYS": cut.keys, "V": v.shape[-1], "VALUES": cut.values},
        **{"CHUNK": chunk_of(8 * v.element_size()), "EACH": k.shape[2] // q.shape[2], **_options(cut)},
    }
