"""Packed features inside a Triton kernel.

Feature f is root_f x_i x_j, where a channel C stands for the number one.  A tile of features is made by two
products with matrices of zeros and ones, which pick x_i and x_j: nothing is gathered, and the same matrices,
transposed, carry a gradient of the features back to the channels.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false

import triton
import triton.language as tl

from zoo.kernels.common.tiles import load_rows, store_rows


@triton.jit
def factors(f, C: tl.constexpr, CS: tl.constexpr):
    """Return i, j and root^2 of features f, in the order of `features.taylor_features`."""
    pair = f - 2 * C - 1  # its place among i < j, row by row
    row = tl.arange(0, CS)[:, None]
    ends = (row + 1) * (2 * C - 2 - row) // 2  # of the rows of pairs
    i = tl.sum(((ends <= pair[None, :]) & (row < C)).to(tl.int32), 0)
    j = pair - i * (2 * C - 1 - i) // 2 + i + 1
    linear, square = f <= C, (f > C) & (f <= 2 * C)
    i = tl.where(linear, C, tl.where(square, f - C - 1, i))
    j = tl.where(f == 0, C, tl.where(linear, f - 1, tl.where(square, f - C - 1, j)))
    power = tl.where(f == 0, 1.0, tl.where(linear, C**-0.5, tl.where(square, 0.5 / C, 1.0 / C)))
    return i, j, power


@triton.jit
def pick(channel, CS: tl.constexpr):
    """Return [CS, len(channel)]: a product with it gives these channels, of channel C zeros: add `one`."""
    return (tl.arange(0, CS)[:, None] == channel[None, :]).to(tl.float32)


@triton.jit
def one(channel, C: tl.constexpr):
    """Return 1 for the channel that stands for the number one, and 0 for the rest."""
    return (channel == C).to(tl.float32)


@triton.jit
def _picks(picks, C: tl.constexpr, CS: tl.constexpr, F: tl.constexpr, BLOCK: tl.constexpr):
    """Write [2 F CS]: rows that pick the first and the second channel of each feature."""
    f = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    i, j, _ = factors(f, C, CS)
    store_rows(picks, CS, f, F, tl.trans(pick(i, CS)), CS, CS)
    store_rows(picks + F * CS, CS, f, F, tl.trans(pick(j, CS)), CS, CS)


@triton.jit
def load_picks(picks, f, CS: tl.constexpr, F: tl.constexpr):
    """Load [len(f), CS] twice: what `_picks` wrote; then add `ones`."""
    return load_rows(picks, CS, f, F, CS, CS), load_rows(picks + F * CS, CS, f, F, CS, CS)


@triton.jit
def ones(f, C: tl.constexpr):
    """Return [1, len(f)] twice: 1 where the first and the second channel of a feature is the number one."""
    return (f <= C).to(tl.float32)[None, :], (f == 0).to(tl.float32)[None, :]


@triton.jit
def places(C: tl.constexpr, CS: tl.constexpr):
    """Return [CS, CS]: where the feature of channels i <= j stands."""
    i, j = tl.arange(0, CS)[:, None], tl.arange(0, CS)[None, :]
    pair = 2 * C + i * (2 * C - 1 - i) // 2 + j - i
    return tl.where(i == j, C + 1 + i, pair)
