"""Choose tile sizes for the kernels of se_attention, and launch them."""

# pyright: reportArgumentType=false, reportCallIssue=false

from typing import Any, NamedTuple

import torch
import triton
from jaxtyping import Float, Int
from torch import Tensor

from zoo.kernels.common.launching import Blocks, by_time, launch_options, strided
from zoo.kernels.common.tiles import hopper, power_of_two
from zoo.kernels.se_attention.triton_backward import backward_keys, backward_queries
from zoo.kernels.se_attention.triton_far import far_backward, far_forward
from zoo.kernels.se_attention.triton_forward import forward


class Shape(NamedTuple):
    """The numbers of a call."""

    chunk_size: int  # 0: sizes differ
    offset: int  # tokens of the first chunk before the call
    block_size: int
    per_token: bool  # a row is a token


def blocks_of(kernel: str, bits: int, channels: int) -> Blocks:
    """Return tile sizes fixed by dtype, width and card, so that captured graphs and second runs do the same.

    `python -m tests.kernels.compiled` says what each costs in registers; none may spill.
    """
    wide, small = channels > 64, not hopper()  # before Hopper, factors fill the registers
    if small and bits == 32 and kernel in ("keys", "queries", "far_backward"):
        return Blocks(32, 16, 4 if kernel == "keys" or channels <= 32 else 8, 1)
    if kernel == "keys":
        return Blocks(128, 16, 8, 2) if bits == 32 else Blocks(64, 32, 8, 2)
    if kernel.startswith("far"):
        if small and wide:
            return Blocks(32, 32, 4, 1)
        return Blocks(64, 32 if bits == 16 else 16, 8 if wide else 4, 1)
    if bits == 32:
        # eight warps over 64 rows and 16 keys: Triton 3.6 multiplies past shared memory, or wrongly
        return Blocks(64, 16, 4, 2) if channels <= 32 else Blocks(128, 16, 8, 2)
    if kernel == "queries":
        return Blocks(64, 32 if small or wide else 64, 4 if channels <= 32 and not small else 8, 2)
    return Blocks(128, 32 if wide or small else 64, 8, 3)


class Inputs(NamedTuple):
    """The tensors of a call.  of_place, begins_at: if chunk sizes differ, each token's chunk, all starts."""

    q: Float[Tensor, "B H T C"]
    k: Float[Tensor, "B G S C"]
    v: Float[Tensor, "B G S C"]
    ids: Int[Tensor, "B I R N"]
    bias: Float[Tensor, "B I R N"] | None
    of_place: Int[Tensor, "T"] | None
    begins_at: Int[Tensor, "R+1"] | None

    @property
    def streams(self) -> tuple[Any, ...]:
        """Return q, k and v with their strides."""
        return strided(*self[:3])

    def cut(self, kernel: str) -> Blocks:
        """Return the tile sizes of one kernel for these inputs."""
        return blocks_of(kernel, 8 * self.q.element_size(), power_of_two(self.q.shape[-1]))

    def or_ids(self, *parts: Tensor | None) -> list[Tensor]:
        """Return the parts, with ids in place of None, because a kernel needs something to point at."""
        return [self.ids if x is None else x for x in parts]


def attend(x: Inputs, at: Shape) -> tuple[Float[Tensor, "B H T C"], Float[Tensor, "B H T"]]:
    """Return y, and the log (to base 2) of the sum of a query's weights."""
    y, lse, cut = by_time(x.q), x.q.new_empty(x.q.shape[:-1], dtype=torch.float32), x.cut("forward")
    far = _far_forward(x, at) if at.per_token else (None, None)
    forward[_by_queries(x.q, at, cut)](
        *(*x.streams, *x.or_ids(x.of_place, x.begins_at), x.ids, *x.or_ids(x.bias, *far)),
        *(*strided(y), lse, *_numbers(x, at)),
        **_constants(x, at, cut),
    )
    return y, lse


def _far_forward(x: Inputs, at: Shape) -> tuple[Float[Tensor, "B H T N C"], Float[Tensor, "B H T N"]]:
    """Return the output of every choice, and the log (to base 2) of the sum of its weights."""
    parts, levels = _parts(x), x.q.new_empty(*x.q.shape[:3], x.ids.shape[3], dtype=torch.float32)
    cut = x.cut("far_forward")
    if levels.numel():
        far_forward[_by_choices(x, cut)](
            *(*x.streams, *_sorted(x.ids), *x.or_ids(x.bias), parts, levels, *_far_numbers(x, at)),
            **_far_constants(x, cut),
        )
    return parts, levels


def gradients(
    x: Inputs, at: Shape, y: Tensor, lse: Tensor, dy: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return dq, dk, dv, and the shares of a head's tokens in the gradient of each choice's bias."""
    dq, delta, cut = by_time(x.q), torch.empty_like(lse), x.cut("queries")
    shares = _shares(x, at, cut.rows)
    far = _far_backward(x, at, y, lse, dy, shares) if at.per_token else None
    tables = x.or_ids(x.of_place, x.begins_at)
    backward_queries[_by_queries(x.q, at, cut)](
        *(*x.streams, *strided(dy), *tables, x.ids, *x.or_ids(x.bias), *strided(y), lse, delta),
        *(*strided(dq), shares, *x.or_ids(far), *_numbers(x, at), shares.shape[3]),
        **_constants(x, at, cut),
    )
    dk, dv, cut, blocks = by_time(x.k), by_time(x.v), x.cut("keys"), x.k.shape[2] // at.block_size
    backward_keys[x.k.shape[0] * x.k.shape[1], triton.cdiv(x.k.shape[2], cut.rows)](
        *(*x.streams, *strided(dy), *tables, *_inverted(x.ids, blocks), *x.or_ids(x.bias), lse, delta),
        *(*strided(dk, dv), *_numbers(x, at), blocks),
        **_constants(x, at, cut),
    )
    return dq, dk, dv, shares.sum((3, 5))


def _far_backward(
    x: Inputs, at: Shape, y: Tensor, lse: Tensor, dy: Tensor, shares: Tensor
) -> Float[Tensor, "B H T N C"]:
    parts, cut = _parts(x), x.cut("far_backward")
    if parts.numel():
        far_backward[_by_choices(x, cut)](
            *(*x.streams, *strided(dy), *_sorted(x.ids), *x.or_ids(x.bias), *strided(y), lse),
            *(parts, shares, *_far_numbers(x, at)),
            **_far_constants(x, cut),
        )
    return parts


# arguments of the kernels ----------------------------------------------------------------------------------


def _parts(x: Inputs) -> Float[Tensor, "B H T N C"]:
    return x.q.new_empty(*x.q.shape[:3], x.ids.shape[3], x.q.shape[3])


def _by_queries(q: Tensor, at: Shape, cut: Blocks) -> tuple[int, int]:
    """Return the grid: tiles begin where the first chunk does, without those before the first query."""
    tiles = triton.cdiv(at.offset + q.shape[2], cut.rows) - at.offset // cut.rows
    return q.shape[0] * q.shape[1], tiles


def _by_choices(x: Inputs, cut: Blocks) -> tuple[int, int]:
    return x.q.shape[0] * x.q.shape[1], triton.cdiv(x.ids[0, 0].numel(), cut.rows)


def _numbers(x: Inputs, at: Shape) -> tuple[float, ...]:
    sizes = (x.q.shape[1], x.k.shape[1], x.ids.shape[1], x.q.shape[2], x.k.shape[2], *x.ids.shape[2:])
    return *sizes, at.chunk_size, at.offset, at.block_size, x.q.shape[3] ** -0.5


def _far_numbers(x: Inputs, at: Shape) -> tuple[float, ...]:
    sizes = (x.q.shape[1], x.k.shape[1], x.ids.shape[1], x.q.shape[2], x.k.shape[2])
    return *sizes, x.ids[0, 0].numel(), x.ids.shape[3], at.block_size, x.q.shape[3] ** -0.5


def _constants(x: Inputs, at: Shape, cut: Blocks) -> dict[str, Any]:
    return {**_far_constants(x, cut), "PER_TOKEN": at.per_token, "DRAWN": not at.chunk_size}


def _far_constants(x: Inputs, cut: Blocks) -> dict[str, Any]:
    return {
        **{"C": x.q.shape[-1], "CS": power_of_two(x.q.shape[-1]), "BIASED": x.bias is not None},
        **{"ROWS": cut.rows, "COLS": cut.cols},
        **launch_options(cut.num_warps, cut.num_stages),
    }


def _shares(x: Inputs, at: Shape, rows: int) -> Float[Tensor, "B H R P N L"]:
    """Return memory for the gradient of each row's biases, in shares of the P tiles that it may lie in."""
    if x.bias is None:
        return x.q.new_zeros((1,) * 6, dtype=torch.float32)
    tiles, tokens = (1, 1) if at.per_token else (triton.cdiv(at.chunk_size, rows) + 1, at.block_size)
    return x.q.new_zeros(*x.q.shape[:2], x.ids.shape[2], tiles, x.ids.shape[3], tokens, dtype=torch.float32)


def _sorted(ids: Int[Tensor, "B I R N"]) -> tuple[Int[Tensor, "B I R*N"], Int[Tensor, "B I R*N"]]:
    """Return the chosen blocks in order, and the entry (row N + place) of each."""
    blocks, entries = ids.flatten(2).sort(dim=-1, stable=True)
    return blocks, entries.to(torch.int32)


def _inverted(ids: Int[Tensor, "B I R N"], num_blocks: int) -> tuple[Tensor, Tensor, Int[Tensor, "B I U+1"]]:
    """Return the chosen blocks in order, their entries, and where each block begins."""
    blocks, entries = _sorted(ids)
    edges = torch.arange(num_blocks + 1, dtype=ids.dtype, device=ids.device)
    edges = edges.expand(*ids.shape[:2], -1).contiguous()
    return blocks, entries, torch.searchsorted(blocks, edges, out_int32=True)
