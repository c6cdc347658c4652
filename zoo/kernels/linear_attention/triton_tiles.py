"""What the kernels of both passes do alike: columns into registers, decays in a chunk."""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false
# what is decorated with triton.jit is no Python, and its arguments are not what Python takes them for

import triton
import triton.language as tl

LEAST = tl.constexpr(-1000.0)  # of a log decay: exp of less is zero too, and -inf less -inf would be nan


@triton.jit
def load_column(at, rows, length, other):
    """[len(rows)] numbers that lie side by side."""
    return tl.load(at + rows, mask=rows < length, other=other)


@triton.jit
def log_decays(at, stride, rows, length):
    """The log decay from the chunk's start to after each token, in float64, and to its end.

    Differences of these sums are taken, and there are not digits enough for that in float32: after 64 steps
    of -40 it knows a sum to 1e-4.
    """
    steps = tl.load(at + rows * stride, mask=rows < length, other=0.0).to(tl.float32)
    steps = tl.maximum(steps, LEAST).to(tl.float64)
    return tl.cumsum(steps, 0), tl.sum(steps, 0)


@triton.jit
def faded(log_decay):
    """exp of a sum of log decays, in float32.  A difference of sums may round to above zero: that is zero."""
    return tl.exp(tl.minimum(log_decay, 0.0).to(tl.float32))


@triton.jit
def decayed(x, until, rows, columns, length):
    """x [len(rows), len(columns)], each entry by the decay from the earlier to the later of its two tokens.

    until: the sums of `log_decays`; None: no decay.  They are taken apart into two of float32, the
    differences of which round like no more than themselves: a tile of float64 would spill.
    """
    if until is not None:
        one, other = load_column(until, rows, length, 0.0), load_column(until, columns, length, 0.0)
        coarse_one, coarse_other = one.to(tl.float32), other.to(tl.float32)
        fine_one, fine_other = (one - coarse_one).to(tl.float32), (other - coarse_other).to(tl.float32)
        between = (coarse_one[:, None] - coarse_other[None, :]) + (fine_one[:, None] - fine_other[None, :])
        x *= tl.exp(-tl.abs(between))
    return x
