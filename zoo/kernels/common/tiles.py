"""Help our Triton kernels load and store rows of a matrix, and multiply on tensor cores."""

# pyright: reportArgumentType=false, reportCallIssue=false
# a function under triton.jit is not Python, and its arguments are not what their Python types say

import triton
import triton.language as tl
from torch import Tensor
from triton.runtime import driver

from zoo.kernels.common.available import interpreted


def power_of_two(size: int) -> int:
    """Return the power of two that a tile of `size` columns is filled up to; a product takes 16 at least."""
    return max(16, triton.next_power_of_2(size))


def hopper() -> bool:
    """Return whether a product's factors may stay in shared memory; before Hopper they fill registers."""
    return interpreted() or driver.active.get_current_target().arch >= 90  # pyright: ignore


def rows_last(x: Tensor) -> Tensor:
    """Return x with its last dimension contiguous, as `load_rows` and `store_rows` assume."""
    return x if x.stride(-1) == 1 else x.contiguous()


@triton.jit
def load_block(at, stride, rows, length, first, N: tl.constexpr, SIZE: tl.constexpr):
    """Load [len(rows), SIZE] from column `first` of a matrix of `length` rows and N columns; zeros elsewhere.

    length None: all rows are there, and none is compared.
    """
    columns = first + tl.arange(0, SIZE)
    mask = (columns < N)[None, :]
    if length is not None:
        mask = (rows < length)[:, None] & mask
    return tl.load(at + rows[:, None] * stride + columns[None, :], mask=mask, other=0.0)


@triton.jit
def store_block(at, stride, rows, length, first, x, N: tl.constexpr, SIZE: tl.constexpr):
    """Store x [len(rows), SIZE] where `load_block` finds it, in the dtype of the memory."""
    columns = first + tl.arange(0, SIZE)
    mask = (rows < length)[:, None] & (columns < N)[None, :]
    tl.store(at + rows[:, None] * stride + columns[None, :], x.to(at.dtype.element_ty), mask=mask)


@triton.jit
def load_rows(at, stride, rows, length, N: tl.constexpr, SIZE: tl.constexpr):
    """Load the columns from the first on, as `load_block`."""
    return load_block(at, stride, rows, length, 0, N, SIZE)


@triton.jit
def store_rows(at, stride, rows, length, x, N: tl.constexpr, SIZE: tl.constexpr):
    """Store to the columns from the first on, as `store_block`."""
    store_block(at, stride, rows, length, 0, x, N, SIZE)


@triton.jit
def dot(a, b, sum=None):
    """Return a b [+ sum] in float32; the factors in the dtype of b.

    Products of float32 are done in three parts (tf32x3): one part alone would lose 13 of the 24 bits, and
    full float32 has no tensor cores.
    """
    return tl.dot(a.to(b.dtype), b, sum, input_precision="tf32x3")
