"""Compute Taylor attention in Triton: weights stay in registers, a block at a time, and are never stored.

The weights need no exponential and no running maximum, so a program only adds: with r = 1 + u, a weight is
(r^2 + 1) / 2 and its derivative by u is r.  The sum of the weights is kept for the backward pass, [B H T] in
float32; the rest is made again.  With p = w / total and dp = dy v^T,

    dv = p^T dy,   ds = (dp - sum of dy y over V) r / (total sqrt C),   dq = ds k,   dk = ds^T q.

B batch, H heads, T time, C channels of q and k, V channels of a value.  Tensors come with the strides they
have; the last must be 1.
"""

# pyright: reportArgumentType=false, reportCallIssue=false

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from zoo.kernels.common.folding import Folding, Gradients
from zoo.kernels.common.launching import Blocks, by_time, launch_options, mixed, strided, unfit_here
from zoo.kernels.common.tiles import dot, hopper, load_rows, power_of_two, rows_last, store_rows

CHANNELS = (16, 32)  # of q and k, filled up with zeros
WIDTH = {torch.float32: 64, torch.bfloat16: 128}  # columns of a value at once: more would spill registers


def blocks(kernel: str, bits: int, channels: int, width: int) -> Blocks:
    """Return tile sizes fixed by dtype, widths and card, so that captured graphs and second runs do the same.

    `python -m tests.kernels.compiled` says what each costs in registers; none may spill.
    """
    tight = kernel == "keys" and width == 64 and not hopper()  # where fewer registers are left
    if bits == 32:
        return Blocks(64, 16, 8 if tight else 4, 3 if tight or kernel == "forward" else 2)
    if kernel == "forward":
        return Blocks(128, 64, 8, 3)
    if tight or (kernel == "keys" and channels + width > 80):
        return Blocks(64, 32, 8, 2)
    return Blocks(64, 64, 4 if width <= 64 else 8, 2)


def taylor_attention_triton(q: Tensor, k: Tensor, v: Tensor, eps: float) -> Tensor:
    """Attend without storing a weight; y has the dtype of v."""
    if v.shape[-1] > WIDTH[v.dtype]:  # columns of a value are independent: their gradients of q and k add up
        parts = v.split(WIDTH[v.dtype], -1)
        return torch.cat([taylor_attention_triton(q, k, part, eps) for part in parts], -1)
    lead = v.shape[:-2]
    q, k, v = (_four(x) for x in (q, k, v))
    return _Attention.apply(q, k, v, eps)[0].reshape(*lead, *v.shape[-2:])


def unfit(q: Tensor, k: Tensor, v: Tensor, eps: float) -> str | None:
    """Return why the kernel cannot take these inputs; None: it can."""
    if not q.shape[:-1] == k.shape[:-1] == v.shape[:-1]:
        return "q, k and v must have the same leading dimensions"
    if reason := mixed(q, k, v, dtypes=WIDTH):
        return reason
    if q.shape[-1] > CHANNELS[-1]:
        return f"feature_dim (={q.shape[-1]}) must be at most {CHANNELS[-1]}"
    return unfit_here(q)


def _four(x: Tensor) -> Tensor:
    """Return x as [B H T C], a view where possible."""
    x = x.flatten(0, -4) if x.ndim > 4 else x[(None,) * (4 - x.ndim)]
    return rows_last(x)


class _Attention(Folding):
    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, eps: float) -> tuple[Tensor, Tensor]:  # pyright: ignore
        """Launch the forward kernel."""
        y, total = by_time(v), q.new_empty(q.shape[:-1], dtype=torch.float32)
        cut = blocks("forward", 8 * q.element_size(), _channels(q), power_of_two(v.shape[-1]))
        _forward[_grid(q, cut.rows)](
            *(*strided(q, k, v, y), total),
            *(q.shape[1], q.shape[2], q.shape[3] ** -0.5, eps),
            **_sizes(q, v, cut),
        )
        return y, total

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[:3], *output)

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, _: None) -> tuple[Tensor | None, ...]:  # pyright: ignore
        """Return the gradients of q, k and v."""
        if dy is None:
            return None, None, None, None
        return *_Backward.apply(*ctx.saved_tensors, dy), None


class _Backward(Gradients):
    @staticmethod
    def forward(  # pyright: ignore
        q: Tensor, k: Tensor, v: Tensor, y: Tensor, total: Tensor, dy: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Launch the backward kernels."""
        dy = rows_last(dy)
        dq, dk, dv, delta = by_time(q), by_time(k), by_time(v), torch.empty_like(total)
        shape = (q.shape[1], q.shape[2], q.shape[3] ** -0.5)
        inputs = strided(q, k, v, dy)
        cut = blocks("queries", 8 * q.element_size(), _channels(q), power_of_two(v.shape[-1]))
        _queries[_grid(q, cut.rows)](
            *(*inputs, *strided(y), total, delta, *strided(dq), *shape), **_sizes(q, v, cut)
        )
        cut = blocks("keys", 8 * q.element_size(), _channels(q), power_of_two(v.shape[-1]))
        _keys[_grid(q, cut.rows)](*(*inputs, total, delta, *strided(dk, dv), *shape), **_sizes(q, v, cut))
        return dq, dk, dv


def _grid(q: Tensor, rows: int) -> tuple[int, int]:
    return q.shape[0] * q.shape[1], triton.cdiv(q.shape[2], rows)


def _channels(q: Tensor) -> int:
    return next(size for size in CHANNELS if size >= q.shape[-1])


def _sizes(q: Tensor, v: Tensor, cut: Blocks) -> dict[str, Any]:
    return {
        **{"C": q.shape[-1], "CS": _channels(q), "V": v.shape[-1], "VS": power_of_two(v.shape[-1])},
        **{"ROWS": cut.rows, "COLS": cut.cols},
        **launch_options(cut.num_warps, cut.num_stages),
    }


# the kernels: CS and VS are C and V filled up to a power of two; own rows i, passing rows j ----------------


@triton.jit
def _forward(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, v, v_b, v_h, v_t, y, y_b, y_h, y_t, total,
    H, T, scale, eps,
    C: tl.constexpr, CS: tl.constexpr, V: tl.constexpr, VS: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Attend for ROWS queries of a head, the longest rows first."""
    head, first = tl.program_id(0).to(tl.int64), (tl.num_programs(1) - 1 - tl.program_id(1)) * ROWS
    b, h = head // H, head % H
    q, k, v, y = q + b * q_b + h * q_h, k + b * k_b + h * k_h, v + b * v_b + h * v_h, y + b * y_b + h * y_h
    i = first + tl.arange(0, ROWS)
    queries = load_rows(q, q_t, i, T, C, CS)
    sums, weight = tl.zeros([ROWS, VS], tl.float32), tl.zeros([ROWS], tl.float32)
    half: tl.constexpr = 0.5**0.5  # (1 + u)^2 / 2 in one product
    scale *= half
    for start in range(0, first, COLS):  # keys that all queries see
        j = start + tl.arange(0, COLS)
        r = dot(queries, tl.trans(load_rows(k, k_t, j, None, C, CS))) * scale + half
        w = r * r + 0.5
        weight += tl.sum(w, 1)
        sums = dot(w, load_rows(v, v_t, j, None, V, VS), sums)
    for start in range(first, min(first + ROWS, T), COLS):
        j = start + tl.arange(0, COLS)
        r = dot(queries, tl.trans(load_rows(k, k_t, j, T, C, CS))) * scale + half
        w = tl.where(j[None, :] <= i[:, None], r * r + 0.5, 0.0)
        weight += tl.sum(w, 1)
        sums = dot(w, load_rows(v, v_t, j, T, V, VS), sums)
    weight += eps
    store_rows(y, y_t, i, T, sums * (1 / weight)[:, None], V, VS)
    tl.store(total + head * T + i, weight, mask=i < T)


@triton.jit
def _queries(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, v, v_b, v_h, v_t, dy, dy_b, dy_h, dy_t, y, y_b, y_h, y_t,
    total, delta, dq, dq_b, dq_h, dq_t,
    H, T, scale,
    C: tl.constexpr, CS: tl.constexpr, V: tl.constexpr, VS: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Compute dq of ROWS queries, and delta, the sum of dy y, for `_keys`."""
    head, first = tl.program_id(0).to(tl.int64), (tl.num_programs(1) - 1 - tl.program_id(1)) * ROWS
    b, h = head // H, head % H
    q, k, v, dq = (
        q + b * q_b + h * q_h,
        k + b * k_b + h * k_h,
        v + b * v_b + h * v_h,
        dq + b * dq_b + h * dq_h,
    )
    dy, y = dy + b * dy_b + h * dy_h, y + b * y_b + h * y_h
    i = first + tl.arange(0, ROWS)
    queries, upstream = load_rows(q, q_t, i, T, C, CS), load_rows(dy, dy_t, i, T, V, VS)
    through = tl.sum(upstream.to(tl.float32) * load_rows(y, y_t, i, T, V, VS).to(tl.float32), 1)
    tl.store(delta + head * T + i, through, mask=i < T)
    sums = tl.zeros([ROWS, CS], tl.float32)
    for start in range(0, first, COLS):
        j = start + tl.arange(0, COLS)
        keys = load_rows(k, k_t, j, T, C, CS)
        r = dot(queries, tl.trans(keys)) * scale + 1
        dp = dot(upstream, tl.trans(load_rows(v, v_t, j, T, V, VS)))
        sums = dot((dp - through[:, None]) * r, keys, sums)
    for start in range(first, min(first + ROWS, T), COLS):
        j = start + tl.arange(0, COLS)
        keys = load_rows(k, k_t, j, T, C, CS)
        r = dot(queries, tl.trans(keys)) * scale + 1
        dp = dot(upstream, tl.trans(load_rows(v, v_t, j, T, V, VS)))
        ds = tl.where(j[None, :] <= i[:, None], (dp - through[:, None]) * r, 0.0)
        sums = dot(ds, keys, sums)
    weight = tl.load(total + head * T + i, mask=i < T, other=1.0)
    store_rows(dq, dq_t, i, T, sums * (scale / weight)[:, None], C, CS)


@triton.jit
def _keys(
    q, q_b, q_h, q_t, k, k_b, k_h, k_t, v, v_b, v_h, v_t, dy, dy_b, dy_h, dy_t,
    total, delta, dk, dk_b, dk_h, dk_t, dv, dv_b, dv_h, dv_t,
    H, T, scale,
    C: tl.constexpr, CS: tl.constexpr, V: tl.constexpr, VS: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Compute dk and dv of ROWS keys; the weights are transposed, [ROWS keys, COLS queries]."""
    head, first = tl.program_id(0).to(tl.int64), tl.program_id(1) * ROWS
    b, h = head // H, head % H
    q, k, v, dy = (
        q + b * q_b + h * q_h,
        k + b * k_b + h * k_h,
        v + b * v_b + h * v_h,
        dy + b * dy_b + h * dy_h,
    )
    dk, dv = dk + b * dk_b + h * dk_h, dv + b * dv_b + h * dv_h
    j = first + tl.arange(0, ROWS)
    keys, values = load_rows(k, k_t, j, T, C, CS), load_rows(v, v_t, j, T, V, VS)
    dkeys, dvalues = tl.zeros([ROWS, CS], tl.float32), tl.zeros([ROWS, VS], tl.float32)
    for start in range(first, T, COLS):
        i = start + tl.arange(0, COLS)
        queries, upstream = load_rows(q, q_t, i, T, C, CS), load_rows(dy, dy_t, i, T, V, VS)
        share = 1 / tl.load(total + head * T + i, mask=i < T, other=1.0)
        through = tl.load(delta + head * T + i, mask=i < T, other=0.0)
        visible = tl.where(j[:, None] <= i[None, :], share[None, :], 0.0)
        r = dot(keys, tl.trans(queries)) * scale + 1
        ratio = r * visible
        dvalues = dot(r * ratio + visible, upstream, dvalues)  # 2 dv; halved below
        dp = dot(values, tl.trans(upstream))
        dkeys = dot((dp - through[None, :]) * ratio, queries, dkeys)
    store_rows(dk, dk_t, j, T, dkeys * scale, C, CS)
    store_rows(dv, dv_t, j, T, dvalues * 0.5, V, VS)
