"""Choose tile sizes for the kernels of Taylor linear attention, make their memory, and launch them.

Costs, forward at B H T C V = 4 16 8192 16 64 in bfloat16 on an H200: counted, not measured, at 4.3 TB/s, 790
TFLOP/s and four instructions of a warp a cycle on each of 132 multiprocessors at 1.755 GHz, as Triton 3.9
compiles them for sm_90.

- Bytes: `_sums` reads 84 MB and writes 41, `_outputs` reads 142 and writes 69: 78 us for 336 MB, where the
  floor is 39.5 us for 170 MB.
- Products: 52 GFLOP, 65 us.
- Instructions: `_sums` 244 a warp for 64 tokens and 64 features, 88 for what it writes before each chunk: 27
  million, 29 us.  `_outputs` some 2,800 a warp for 128 queries: 46 million, 50 us.

So each of the three takes twice the floor, and what does not overlap comes on top.  Instructions were the
bound (141 million) until these changes: four warps take 128 queries in place of eight, which pays the same
addresses for half the rows; z, the number one and the channels left the tiles of features; the channels that
make a feature are read (`_picks`), not computed; no row that is known to be there is compared with T; and the
queries of a chunk's own keys are compared when compiled.  One program of `_sums` walks 128 steps, in a single
loop whose loads run ahead into the next chunk.  Neither alternative gains: more spans would make features
twice, 29 us; float32 sums of each chunk apart, added up by a further kernel, would move 160 MB more, 37 us.

Backward, by the same count: `_sums` again 27 million and from the end 42, `_queries` 88, `_keys` 111, 290 us.

The letters are those of `triton`.
"""

# pyright: reportArgumentType=false, reportCallIssue=false

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
from jaxtyping import Float
from torch import Tensor

from zoo.kernels.common.launching import by_time, launch_options, strided
from zoo.kernels.common.tiles import hopper, power_of_two
from zoo.kernels.taylor_scan.features import num_features
from zoo.kernels.taylor_scan.triton_backward import _keys, _queries
from zoo.kernels.taylor_scan.triton_features import _picks
from zoo.kernels.taylor_scan.triton_forward import _outputs, _step, _sums

CHUNK = 256  # tokens whose pairs are computed by weights, not by features
PROGRAMS = 264  # that keep a card busy: two on each of 132 multiprocessors
SPAN = 4  # chunks, at least, that one of several programs takes from a head

State = tuple[Float[Tensor, "B H F V"], Float[Tensor, "B H F"]]


class Blocks(NamedTuple):
    """The tile sizes of one program: it keeps its `rows`, and loops over `cols` and `features` at a time."""

    rows: int
    cols: int
    features: int
    num_warps: int
    num_stages: int


def blocks(kernel: str, bits: int, width: int) -> Blocks:
    """Return tile sizes fixed by dtype, width and card, so that captured graphs and second runs do the same.

    `python -m tests.kernels.compiled` says what each costs in registers; none may spill.
    """
    if kernel == "step":
        return Blocks(min(width, 64), 1, 32, 4, 1)
    before_hopper = not hopper()  # where fewer registers are left
    if kernel in ("sums", "spans"):
        # with columns of values that fill no tile of 16, Triton 3.6 reads past shared memory at 64 tokens
        other = 32 if width == 16 or (kernel == "spans" and before_hopper) else 64
        return Blocks(64, 16, 64, 4, 1) if bits == 32 else Blocks(64, other, 64, 4, 3)
    if bits == 32:
        warps = 8 if kernel == "queries" and width == 32 and before_hopper else 4
        if kernel == "outputs":
            return Blocks(64, 16, 16, warps, 1 if width == 64 and before_hopper else 2)
        return Blocks(64, 16, 16, warps, 3 if width == 16 else 1 if kernel == "keys" else 2)
    if kernel == "outputs":
        return Blocks(128, 64, 32, 8 if before_hopper else 4, 2)
    return Blocks(64, 64, 32, 4, 3 if kernel == "queries" and width == 16 else 2)


def spans_of(programs: int, chunks: int) -> int:
    """Return the number of spans to cut chunks into, where one span would make `programs` programs."""
    return max(1, min(PROGRAMS // programs, chunks // SPAN))


class Sums(NamedTuple):
    """The sums of phi(x) u^T and phi(x), for N chunks; chunk_kv in the dtype of u."""

    chunk_kv: Float[Tensor, "B H N F V"]
    chunk_z: Float[Tensor, "B H N F"]
    end_kv: Float[Tensor, "B H F V"]
    end_z: Float[Tensor, "B H F"]


def sums(
    x: Float[Tensor, "B H T C"],
    u: Float[Tensor, "B H T V"],
    start: State | None,
    back: tuple[Tensor, Tensor] | None = None,
) -> Sums:
    """Return the sums before each chunk, and at the end.  back: share and delta, for the sums after each."""
    batch, heads, length, _ = x.shape
    cut = _cut("sums", x, u)
    chunks, tiles = triton.cdiv(length, CHUNK), triton.cdiv(num_features(x.shape[-1]), cut.features)
    span = triton.cdiv(chunks, spans_of(batch * heads * tiles, chunks))
    spans = triton.cdiv(chunks, span)
    made = Sums(*_state(x, u, (batch, heads, chunks), u.dtype), *_state(x, u, (batch, heads), torch.float32))
    ahead = _state(x, u, (batch, heads, spans), torch.float32)
    for keep in (False, True) if spans > 1 else (True,):
        _sums[batch * heads, tiles, spans](
            *(*strided(x, u), *(back or (None, None)), *(start or ahead), *ahead, *made),
            *(heads, length, span, int(start is not None)),
            **_sizes(x, u, cut if keep else _cut("spans", x, u)),
            **{"BACK": back is not None, "KEEP": keep, "WHOLE": length % CHUNK == 0},
        )
    return made


def outputs(
    q: Tensor, k: Tensor, v: Tensor, eps: float, before: Sums, picks: Tensor, started: bool
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T"]]:
    """Return y and share."""
    y, share = by_time(v), q.new_empty(q.shape[:-1], dtype=torch.float32)
    cut = _cut("outputs", q, v)
    _outputs[_grid(q, cut)](
        *(*strided(q, k, v, y), share, *before[:2], picks),
        *(q.shape[1], q.shape[2], int(started), q.shape[3] ** -0.5, eps),
        **_sizes(q, v, cut, with_rows=True),
    )
    return y, share


def one_token(
    q: Tensor, k: Tensor, v: Tensor, eps: float, start: State | None
) -> tuple[
    Float[Tensor, "B H 1 V"], Float[Tensor, "B H F V"], Float[Tensor, "B H F"], Float[Tensor, "B H 1"]
]:
    """Return y, the state after the token, and share."""
    y, share = by_time(v), q.new_empty(q.shape[:-1], dtype=torch.float32)
    kv, z = _state(q, v, q.shape[:2], torch.float32)
    cut = _cut("step", q, v)
    sizes = _sizes(q, v, cut) | {"COLS": cut.rows}
    _step[q.shape[0] * q.shape[1], triton.cdiv(v.shape[-1], cut.rows)](
        *(*strided(q, k, v, y, dims=2), share),
        *(*(start or (kv, z)), kv, z, q.shape[1], int(start is not None), eps),
        **{name: size for name, size in sizes.items() if name not in ("VS", "CHUNK")},
    )
    return y, kv, z, share


def dqueries(
    q: Tensor, k: Tensor, v: Tensor, dy: Tensor, y: Tensor, share: Tensor,
    before: Sums, picks: Tensor, started: bool,
) -> tuple[Float[Tensor, "B H T C"], Float[Tensor, "B H T"]]:  # fmt: skip
    """Return dq and delta."""
    dq, delta, cut = by_time(q), torch.empty_like(share), _cut("queries", q, v)
    _queries[_grid(q, cut)](
        *(*strided(q, k, v, dy, y), share, delta, *before[:2], picks, *strided(dq)),
        *(q.shape[1], q.shape[2], int(started), q.shape[3] ** -0.5),
        **_sizes(q, v, cut, with_rows=True),
    )
    return dq, delta


def dkeys(
    q: Tensor, k: Tensor, v: Tensor, dy: Tensor, share: Tensor, delta: Tensor,
    after: Sums, picks: Tensor, ended: bool,
) -> tuple[Float[Tensor, "B H T C"], Float[Tensor, "B H T V"]]:  # fmt: skip
    """Return dk and dv."""
    dk, dv, cut = by_time(k), by_time(v), _cut("keys", q, v)
    _keys[_grid(q, cut)](
        *(*strided(q, k, v, dy), share, delta, *after[:2], picks, *strided(dk, dv)),
        *(q.shape[1], q.shape[2], int(ended), q.shape[3] ** -0.5),
        **_sizes(q, v, cut, with_rows=True),
    )
    return dk, dv


def _state(x: Tensor, u: Tensor, lead: Sequence[int], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return memory for sums; the sums of the divisor stay in float32."""
    shape = (*lead, num_features(x.shape[-1]))
    return u.new_empty(*shape, u.shape[-1], dtype=dtype), u.new_empty(shape, dtype=torch.float32)


def picks_of(x: Float[Tensor, "B H T C"]) -> Float[Tensor, "2 F CS"]:
    """Return the channels that make each feature, in the dtype of x, once a pass for all of its kernels."""
    sizes = {"C": x.shape[-1], "CS": power_of_two(x.shape[-1]), "F": num_features(x.shape[-1])}
    picks = x.new_empty(2, sizes["F"], sizes["CS"])
    _picks[(triton.cdiv(sizes["F"], 32),)](picks, **sizes, BLOCK=32, **launch_options(4, 1))
    return picks


def _grid(q: Tensor, cut: Blocks) -> tuple[int, int]:
    return q.shape[0] * q.shape[1], triton.cdiv(q.shape[2], cut.rows)


def _cut(kernel: str, q: Tensor, v: Tensor) -> Blocks:
    return blocks(kernel, 8 * q.element_size(), power_of_two(v.shape[-1]))


def _sizes(q: Tensor, v: Tensor, cut: Blocks, with_rows: bool = False) -> dict[str, Any]:
    return {
        **{"C": q.shape[-1], "CS": power_of_two(q.shape[-1]), "F": num_features(q.shape[-1])},
        **{"V": v.shape[-1], "VS": power_of_two(v.shape[-1]), "CHUNK": CHUNK},
        **({"ROWS": cut.rows} if with_rows else {}),
        **{"COLS": cut.cols, "BLOCK": cut.features},
        **launch_options(cut.num_warps, cut.num_stages),
    }
