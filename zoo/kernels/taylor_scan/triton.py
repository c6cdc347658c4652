"""Taylor linear attention in Triton: chunks in parallel, the sums before each of them through memory.

`_sums` loops over the chunks of a head, BLOCK features a program, and writes the sums before each chunk;
`_outputs` then takes all chunks at once: a query reads the keys of its chunk through weights made in
registers, as in `taylor_attention`, and all before through features made in registers.  Where heads are few,
`_sums` runs twice: over spans of chunks side by side, for what each adds, and again from there.  One token
alone is `_step`: it reads the state once and writes it once.

Backward, with g = share dy and delta = sum of dy y over V, the sums run from the end, R over phi(q) g^T and
r over -phi(q) delta share, from the gradients of the last state; and inside a chunk as `taylor_attention`:

    dphi(q) = S g - z delta share,   dphi(k) = R v + r,   dv = p^T g + R^T phi(k).

The sums before the chunks are made again; kept are q, k, v, y, the first state and share [B H T], one over
the sum of a token's weights.

Floors.  Forward, a token and head in bf16: q, k, v, y once, 4 (C + V) bytes; beyond it k and v again and the
sums of a chunk, written and read, 4 F V / CHUNK: for C 16 and V 64, 320 + 313 bytes.  `_step`: the state read
and written, 8 F (V + 1) bytes a head in float32.

B batch, H heads, T time, C channels of q and k, V channels of a value, F features, N chunks.  q, k and v come
with the strides they have; the last must be 1.
"""

from typing import Any

import torch
from torch import Tensor

from zoo.kernels.common.folding import Folding, Gradients
from zoo.kernels.common.launching import mixed, unfit_here
from zoo.kernels.common.tiles import rows_last
from zoo.kernels.taylor_scan import triton_launches as launch

CHANNELS = 32  # of q and k, at most
DTYPES = (torch.float32, torch.bfloat16)


def taylor_scan_triton(
    q: Tensor, k: Tensor, v: Tensor, eps: float, kv: Tensor | None = None, z: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Scan chunks in parallel; y has the dtype of v, the state is float32."""
    width = columns_at_once(q.shape[-1], v.dtype)
    if v.shape[-1] > width:  # columns of a value are independent; each part has the same z
        kvs = [None] * v.shape[-1] if kv is None else kv.split(width, -1)
        parts = [
            taylor_scan_triton(q, k, part, eps, before, z)
            for part, before in zip(v.split(width, -1), kvs, strict=False)
        ]
        return torch.cat([y for y, _, _ in parts], -1), torch.cat([s for _, s, _ in parts], -1), parts[0][2]
    return _Scan.apply(*(rows_last(x) for x in (q, k, v)), eps, kv, z)[:3]


def columns_at_once(channels: int, dtype: torch.dtype) -> int:
    """Return how many columns of a value are computed at once; more would spill registers."""
    return 64 if dtype == torch.bfloat16 or channels <= 16 else 32


def unfit(
    q: Tensor, k: Tensor, v: Tensor, eps: float, kv: Tensor | None = None, z: Tensor | None = None
) -> str | None:
    """Return why the kernels cannot take these inputs; None: they can."""
    if not q.shape[:-1] == k.shape[:-1] == v.shape[:-1] or q.ndim != 4:
        return "q, k and v must be [B H T ...] with the same B, H and T"
    if reason := mixed(q, k, v, dtypes=DTYPES):
        return reason
    if (kv is None) != (z is None):
        return "kv and z come together"
    if any(x is not None and x.dtype != torch.float32 for x in (kv, z)):
        return "kv and z must be float32"
    if q.shape[-1] > CHANNELS:
        return f"feature_dim (={q.shape[-1]}) must be at most {CHANNELS}"
    return unfit_here(q)


class _Scan(Folding):
    @staticmethod
    def forward(  # pyright: ignore
        q: Tensor, k: Tensor, v: Tensor, eps: float, kv: Tensor | None, z: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return y, kv, z and share."""
        start = _both(kv, z)
        if q.shape[2] == 1:
            return launch.one_token(q, k, v, eps, start)
        before = launch.sums(k, v, start)
        y, share = launch.outputs(q, k, v, eps, before, launch.picks_of(q), start is not None)
        return y, before.end_kv, before.end_z, share

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        q, k, v, _, kv, z = inputs
        ctx.mark_non_differentiable(output[3])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(q, k, v, kv, z, output[0], output[3])

    @staticmethod
    def backward(  # pyright: ignore
        ctx: Any, dy: Tensor | None, dkv: Tensor | None, dz: Tensor | None, _: None
    ) -> tuple[Tensor | None, ...]:
        """Return the gradients; an output that no loss reads counts as zeros."""
        q, k, v, kv, z, y, share = ctx.saved_tensors
        if dkv is not None or dz is not None:
            shape = (*q.shape[:2], launch.num_features(q.shape[-1]))
            dkv = share.new_zeros(*shape, v.shape[-1]) if dkv is None else dkv
            dz = share.new_zeros(shape) if dz is None else dz
        dy = torch.zeros_like(y) if dy is None else dy
        dq, dk, dv, dkv, dz = _Backward.apply(q, k, v, kv, z, y, share, dy, dkv, dz)
        return dq, dk, dv, None, *((None, None) if kv is None else (dkv, dz))


class _Backward(Gradients):
    @staticmethod
    def forward(  # pyright: ignore
        q: Tensor, k: Tensor, v: Tensor, kv: Tensor | None, z: Tensor | None, y: Tensor, share: Tensor,
        dy: Tensor, dkv: Tensor | None, dz: Tensor | None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """Launch the backward kernels."""
        dy, start, end = rows_last(dy), _both(kv, z), _both(dkv, dz)
        before, picks = launch.sums(k, v, start), launch.picks_of(q)
        dq, delta = launch.dqueries(q, k, v, dy, y, share, before, picks, start is not None)
        after = launch.sums(q, dy, end, (share, delta))
        dk, dv = launch.dkeys(q, k, v, dy, share, delta, after, picks, end is not None)
        return dq, dk, dv, after.end_kv, after.end_z


def _both(kv: Tensor | None, z: Tensor | None) -> launch.State | None:
    return None if kv is None or z is None else (kv.contiguous(), z.contiguous())
